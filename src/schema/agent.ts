import * as z from 'zod'
import { Argv, HttpUrl, McpTool, Operation, ToolServer, VariableName } from './agent-service.ts'
import { Price, usdc } from './amount.ts'
import {
  ANSWER_TOKENS_MAX,
  DESCRIPTION_LENGTH_MAX,
  INSTRUCTIONS_LENGTH_MAX,
  MODEL_LENGTH_MAX,
  NAME_LENGTH_MAX,
  RESULT_BYTES_MAX,
  RUN_SECONDS_MAX,
  TAG_LENGTH_MAX,
  TAGS_MAX,
} from './limits.ts'
import { Pricing } from './pricing.ts'

/** Default limit of one run in seconds. */
export const AGENT_TIMEOUT_SECONDS = 120

/** True if the text has no lone surrogates, so it survives UTF-8. */
export const wellFormed = (text: string) => text.isWellFormed()

/** Controls of the terminal and of the direction of text, and characters that nobody sees. Scripts and emoji need joiners. */
const UNSEEN = /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}\u00ad\u200b\u2060-\u2064\ufeff]/u
const SEEN = /[\p{L}\p{N}\p{P}\p{S}]/u

/** A name that somebody of this node gives: people see all of it, so equal names look equal. */
export function nameUpTo(lengthMax: number) {
  return z
    .string()
    .trim()
    .min(1, 'is empty')
    .max(lengthMax, `is longer than ${lengthMax} characters`)
    .refine((name) => !UNSEEN.test(name), 'contains control characters or invisible ones: type the name anew')
    .refine((name) => name === '' || SEEN.test(name), 'has nothing to see')
    .refine(wellFormed, 'is not well-formed Unicode')
}
export const AgentName = nameUpTo(NAME_LENGTH_MAX)
export const AgentDescription = z
  .string()
  .trim()
  .min(1, 'is empty')
  .max(DESCRIPTION_LENGTH_MAX, `is longer than ${DESCRIPTION_LENGTH_MAX} characters`)
  .refine(wellFormed, 'is not well-formed Unicode')
export const AgentTags = z
  .array(z.string().trim().min(1).max(TAG_LENGTH_MAX).refine(wellFormed, 'a tag is not well-formed Unicode'))
  .max(TAGS_MAX)

export const streamingModes = ['owed_once_shown', 'off', 'after_settlement'] as const
export type StreamingMode = (typeof streamingModes)[number]
export const Streaming = z.enum(streamingModes).meta({
  description:
    'what a buyer of a paid agent sees before the result. `owed_once_shown` (the default): the output as it comes; if a limit ends the run after some output, the buyer owes the price. `off`: nothing. `after_settlement`: the output as it comes, but only after the payment is settled',
})

const INSTRUCTIONS_TOO_LONG = `is longer than ${INSTRUCTIONS_LENGTH_MAX} characters`
export const reasoningEfforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const

/** Instructions and parameters of a language model: private, never listed, shown only to the operator (D47). */
export const privateFields = {
  instructions: z
    .string()
    .trim()
    .min(1, 'is empty')
    .max(INSTRUCTIONS_LENGTH_MAX, INSTRUCTIONS_TOO_LONG)
    .refine(wellFormed, 'is not well-formed Unicode')
    .optional()
    .meta({ description: 'instructions for the model; private; default: the description' }),
  temperature: z.number().min(0).max(2).optional().meta({ description: 'for a model: how random its answers are' }),
  max_output_tokens: z
    .int()
    .min(1)
    .max(ANSWER_TOKENS_MAX)
    .optional()
    .meta({ description: 'for a model: the longest answer, in tokens of the model' }),
  reasoning: z
    .enum(reasoningEfforts)
    .optional()
    .meta({ description: 'for a model: how much it reasons before it answers' }),
} as const
const modelParameters = ['temperature', 'max_output_tokens', 'reasoning'] as const

export const AgentImage = z
  .string()
  .max(2048)
  .refine((text) => /^https:\/\/[^\s\\]+$/i.test(text) && URL.canParse(text), 'is not an https URL')
  .refine((text) => !/^https:\/\/[^/?#]*@/i.test(text), 'contains a user name or a password')
  .meta({ description: 'https URL of a picture for the registration file on the chain' })

/** Fields that only apply to a language model. */
export const modelFields = ['instructions', 'instructions_file', ...modelParameters] as const

/** Fields that name what does the work instead of a model. */
export const ownRuns = ['command', 'http', 'module', 'a2a', 'mcp_tool', 'operation', 'worker'] as const
const OTHERS = 'command, http, module, a2a, mcp_tool, operation or worker'

/** The most that one run may pay for the agent behind `a2a`. */
export const MaxPrice = Price.refine((price) => price > 0n, 'must be more than 0; omit it to pay nothing').meta({
  description: 'for `a2a`: the most that one run may pay the remote agent, in USDC',
})

const tokenRates = ['per_1k_input_tokens', 'per_1k_output_tokens'] as const
/** What counts no tokens. */
const tokenless = ['command', 'http', 'a2a', 'mcp_tool', 'operation', 'worker'] as const

/** True if a call of the agent costs by its tokens. */
export function countsTokens({ pricing }: { pricing?: Pricing | undefined }): boolean {
  return tokenRates.some((name) => pricing?.[name] !== undefined)
}

type Priced = { price?: bigint | undefined; pricing?: Pricing | undefined; model?: string | undefined } & {
  [name in (typeof tokenless)[number]]?: unknown
}

/** Why a definition says something of its price that cannot be. */
function priceTrouble(agent: Priced): { path: 'price' | 'pricing'; message: string } | undefined {
  const { price, pricing, model } = agent
  if (pricing === undefined) {
    return price === undefined
      ? { path: 'price', message: 'is missing: expected a price in USDC, or pricing' }
      : undefined
  }
  if (price === 0n) return { path: 'price', message: 'is 0, and a free agent has no pricing: give one of the two' }
  if (price !== undefined && price < pricing.max) {
    const fix = `set price to ${usdc(pricing.max)} or more, or leave it out to sell on channels only`
    return { path: 'price', message: `is below pricing.max, and no way to pay may pass it: ${fix}` }
  }
  const rate = tokenRates.find((name) => pricing[name] !== undefined)
  if (rate === undefined) return undefined
  const other = tokenless.find((name) => agent[name] !== undefined)
  const what = other ?? (model?.startsWith('builtin/') ? 'a built-in agent' : undefined)
  if (what === undefined) return undefined
  return { path: 'pricing', message: `${rate}: ${what} counts no tokens: give per_call or per_second` }
}

export function checkPrice(agent: Priced, context: z.core.$RefinementCtx): void {
  const trouble = priceTrouble(agent)
  if (trouble !== undefined) context.addIssue({ code: 'custom', path: [trouble.path], message: trouble.message })
}

/** The body of POST /agents and an entry of agents.yaml. `model`: see D10. */
export const AgentDefinition = z
  .strictObject({
    name: AgentName.meta({
      description: 'unique among the agents of the node; the id of the agent is computed from the name',
    }),
    description: AgentDescription.meta({
      description: 'what the agent does; public; also the instructions of a model that has no others',
    }),
    price: Price.optional().meta({
      description: 'USDC for one call, from 0 (free) to 1000000; may be left out with `pricing`',
    }),
    pricing: Pricing.optional().meta({
      description: 'prices by use, for calls on payment channels; without `price`, the agent is sold on channels only',
    }),
    model: z.string().trim().min(1).max(MODEL_LENGTH_MAX).optional().meta({
      description: '`provider/model` or `builtin/<name>`; default: the first provider that has a key',
    }),
    model_url: HttpUrl.optional().meta({
      description: 'base URL of the server of `openai-compatible/…`, for this agent; default: `OPENAI_BASE_URL`',
    }),
    command: Argv.optional().meta({
      description:
        'a program and its arguments; it reads the task from standard input and writes the result to standard output; no shell',
    }),
    http: HttpUrl.optional().meta({
      description:
        'URL of a web service; it gets the task as the body of a POST, and the body of its answer is the result',
    }),
    module: z.string().min(1).max(4096).optional().meta({
      description: 'a JavaScript or TypeScript file; the node calls its default export with each task',
    }),
    a2a: HttpUrl.optional().meta({ description: 'a remote agent that speaks A2A: URL of the agent or of its card' }),
    max_price: MaxPrice.optional(),
    mcp_tool: McpTool.optional().meta({
      description: 'one tool of an MCP server; the task is the JSON of its arguments',
    }),
    operation: Operation.optional().meta({
      description: 'one operation of an HTTP API; the task is the JSON of its parameters',
    }),
    worker: z.literal(true).optional().meta({
      description: 'true: workers run the agent, each by the entry of this name in its own agents.yaml',
    }),
    mcp: z
      .array(ToolServer)
      .min(1)
      .max(8)
      .optional()
      .meta({ description: 'MCP servers whose tools the model may use' }),
    ...privateFields,
    instructions_file: z.string().min(1).max(4096).optional().meta({
      description: 'a text file with the instructions, instead of `instructions`',
    }),
    tags: AgentTags.optional().meta({ description: 'words that searches match' }),
    image: AgentImage.optional(),
    timeout_seconds: z
      .int()
      .min(1)
      .max(RUN_SECONDS_MAX)
      .optional()
      .meta({ description: `the longest time for one run; default: ${AGENT_TIMEOUT_SECONDS}` }),
    output_bytes_max: z
      .int()
      .min(1)
      .max(RESULT_BYTES_MAX)
      .optional()
      .meta({ description: 'the largest result, in bytes; default: 1048576 (1 MiB)' }),
    runs_max: z.int().min(1).max(1000).optional().meta({
      description: 'runs of this agent at the same time; further calls wait; default: what the node has room for',
    }),
    streaming: Streaming.optional(),
    paused: z.boolean().optional().meta({ description: 'true: the agent stays in the file but is not on the market' }),
    api_key_env: VariableName.optional().meta({
      description:
        'NAME of the variable that holds the key of the model, or the token for `http`, `a2a`, `mcp_tool` or `operation`; never the key itself',
    }),
  })
  .refine((agent) => agent.model === undefined || agent.command === undefined, {
    path: ['command'],
    message: 'give either model or command, not both',
  })
  .superRefine((agent, context) => {
    const given = (['model', ...ownRuns] as const).filter((name) => agent[name] !== undefined)
    const last = given.at(-1)
    if (given.length > 1 && last !== 'command') {
      context.addIssue({
        code: 'custom',
        path: [last!],
        message: 'give one of model, command, http, module, a2a, mcp_tool, operation and worker',
      })
    }
  })
  .refine((agent) => agent.mcp === undefined || !ownRuns.some((name) => agent[name] !== undefined), {
    path: ['mcp'],
    message: `only a language model uses tools: give no ${OTHERS}`,
  })
  .refine((agent) => agent.model_url === undefined || agent.model?.startsWith('openai-compatible/') === true, {
    path: ['model_url'],
    message: 'needs a model that begins with openai-compatible/',
  })
  .refine((agent) => agent.max_price === undefined || agent.a2a !== undefined, {
    path: ['max_price'],
    message: 'needs a2a: only a remote agent is paid',
  })
  .refine((agent) => agent.instructions === undefined || agent.instructions_file === undefined, {
    path: ['instructions_file'],
    message: 'give either instructions or instructions_file, not both',
  })
  .superRefine(checkPrice)
  .superRefine((agent, context) => {
    if (!ownRuns.some((name) => agent[name] !== undefined)) return
    const given = modelFields.find((name) => agent[name] !== undefined)
    if (given === undefined) return
    const message = `needs a language model: give no ${OTHERS}`
    context.addIssue({ code: 'custom', path: [given], message })
  })
export type AgentDefinition = z.infer<typeof AgentDefinition>

/** The highest cost of a call of an agent, over all ways of payment. */
export function priceOf({ price, pricing }: Pick<AgentDefinition, 'price' | 'pricing'>): bigint {
  return price ?? pricing?.max ?? 0n
}

/** True if something of the operator's own does the work instead of a model. */
export function runsOwn(definition: AgentDefinition): boolean {
  return ownRuns.some((name) => definition[name] !== undefined)
}
