import * as z from 'zod'
import { Price } from './amount.ts'

/** The longest an agent may run, in seconds, unless its entry says less. */
export const AGENT_TIMEOUT_SECONDS = 120

/** Text that survives UTF-8: no lone surrogates. */
export const wellFormed = (text: string) => text.isWellFormed()

export const AgentName = z
  .string()
  .trim()
  .min(1, 'is empty')
  .max(80, 'is longer than 80 characters')
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what a name must not hold
  .regex(/^[^\u0000-\u001f\u007f]*$/, 'holds control characters')
  .refine(wellFormed, 'is not well-formed Unicode')
export const AgentDescription = z
  .string()
  .trim()
  .min(1, 'is empty')
  .max(4000, 'is longer than 4000 characters')
  .refine(wellFormed, 'is not well-formed Unicode')
export const AgentTags = z
  .array(z.string().trim().min(1).max(32).refine(wellFormed, 'a tag is not well-formed Unicode'))
  .max(16)

/**
 * How a paid agent shows what it says while it works: what was shown is owed for when a limit ends the run; nothing is shown; or
 * nothing before the payment is settled.
 */
export const streamingModes = ['owed_once_shown', 'off', 'after_settlement'] as const
export type StreamingMode = (typeof streamingModes)[number]
export const Streaming = z.enum(streamingModes).meta({
  description:
    'of a paid agent: `owed_once_shown`: a run that a limit ends is paid for once something of it was shown; `off`: nothing is shown before the result; `after_settlement`: a streamed run is settled first',
})

/** The longest private instruction of a model, in characters. */
export const INSTRUCTIONS_LENGTH_MAX = 64_000
const INSTRUCTIONS_TOO_LONG = `is longer than ${INSTRUCTIONS_LENGTH_MAX} characters`
/** How much a model is to think before it answers. */
export const reasoningEfforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const

/** What a language model is told and how it is asked: private, never listed, shown to the operator alone (D47). */
export const privateFields = {
  instructions: z
    .string()
    .trim()
    .min(1, 'is empty')
    .max(INSTRUCTIONS_LENGTH_MAX, INSTRUCTIONS_TOO_LONG)
    .refine(wellFormed, 'is not well-formed Unicode')
    .optional()
    .meta({ description: 'what the model is told; private. Without it the description is the instruction' }),
  temperature: z.number().min(0).max(2).optional(),
  max_output_tokens: z.int().min(1).max(1_000_000).optional(),
  reasoning: z.enum(reasoningEfforts).optional(),
} as const
const modelParameters = ['temperature', 'max_output_tokens', 'reasoning'] as const

const VariableName = z
  .string()
  .regex(/^[A-Z][A-Z0-9_]{0,127}$/, 'is the NAME of an environment variable, such as OPENAI_API_KEY')
const Argv = z.array(z.string().min(1).max(4096)).min(1).max(64)
const HttpUrl = z
  .string()
  .max(2048)
  .refine((text) => /^https?:$/.test(URL.parse(text)?.protocol ?? ''), 'is not an http(s) URL')
  .refine((text) => !/^https?:\/\/[^/?#]*@/.test(text), 'holds a name or a password: keys never stand in this file')

/** A picture that anybody may load. */
export const AgentImage = z
  .string()
  .max(2048)
  .refine((text) => /^https:\/\/[^\s\\]+$/i.test(text) && URL.canParse(text), 'is not an https URL')
  .refine((text) => !/^https:\/\/[^/?#]*@/i.test(text), 'holds a name or a password')
  .meta({ description: 'https URL of a picture, for the registration file on the chain' })

/** A server of tools for a model: a program of this machine, or a URL. The operator's own (T12). */
export const ToolServer = z
  .strictObject({
    command: Argv.optional(),
    url: HttpUrl.optional(),
    /** Of its tools, only these. */
    tools: z.array(z.string().min(1).max(128)).min(1).max(64).optional(),
    /** Name of the variable that holds the token for `url`. */
    token_env: VariableName.optional(),
  })
  .refine(({ command, url }) => (command === undefined) !== (url === undefined), 'give either command or url')
  .refine(({ url, token_env }) => token_env === undefined || url !== undefined, 'token_env goes with url')
export type ToolServer = z.infer<typeof ToolServer>

/** What only a language model is told. */
export const modelFields = ['instructions', 'instructions_file', ...modelParameters] as const

/** What may do the work instead of a model. */
export const ownRuns = ['command', 'http', 'module', 'a2a'] as const

/** The most that one run may pay for the agent behind `a2a`. */
export const MaxPrice = Price.refine((price) => price > 0n, 'is more than 0, or left out').meta({
  description: 'with `a2a`: the most that one run pays the agent behind this one, in USDC',
})

/** What a seller writes to register an agent: the body of POST /agents and an entry of agents.yaml. */
export const AgentDefinition = z
  .strictObject({
    name: AgentName,
    description: AgentDescription,
    price: Price,
    /** What it runs (D10): `provider/model`, `builtin/<name>`; none: the best that is available. */
    model: z.string().trim().min(1).max(200).optional(),
    /** An own program instead of a model: argv, task on stdin, result on stdout. */
    command: Argv.optional(),
    /** A web service instead: the task is the body of a POST, the answer the result. */
    http: HttpUrl.optional(),
    /** A file of JavaScript or TypeScript instead, whose default export is called with each task. */
    module: z.string().min(1).max(4096).optional(),
    /** An agent elsewhere that speaks A2A: the URL of the agent, or of its card. */
    a2a: HttpUrl.optional(),
    /** The most that one run may pay the agent behind `a2a`. Without it a paid one is not bought. */
    max_price: MaxPrice.optional(),
    /** MCP servers whose tools a language model may use. */
    mcp: z.array(ToolServer).min(1).max(8).optional(),
    ...privateFields,
    /** A file with the instructions instead; a path that is not absolute begins at the data directory. */
    instructions_file: z.string().min(1).max(4096).optional(),
    tags: AgentTags.optional(),
    image: AgentImage.optional(),
    timeout_seconds: z.int().min(1).max(3600).optional(),
    output_bytes_max: z
      .int()
      .min(1)
      .max(4 * 1024 * 1024)
      .optional(),
    /** What a buyer is shown of a run before its result, and what that makes it owe. */
    streaming: Streaming.optional(),
    /** Kept, and not on the market. */
    paused: z.boolean().optional(),
    /** Name of the environment variable that holds the key of this agent's model, or of its `http` or `a2a`. Never the key itself. */
    api_key_env: z
      .string()
      .regex(/^[A-Z][A-Z0-9_]{0,127}$/, 'api_key_env is the NAME of an environment variable, such as OPENAI_API_KEY')
      .optional(),
  })
  .refine((agent) => agent.model === undefined || agent.command === undefined, {
    path: ['command'],
    message: 'give either model or command, not both',
  })
  .superRefine((agent, context) => {
    const given = (['model', ...ownRuns] as const).filter((name) => agent[name] !== undefined)
    const last = given.at(-1)
    if (given.length > 1 && last !== 'command') {
      context.addIssue({ code: 'custom', path: [last!], message: 'give one of model, command, http, module and a2a' })
    }
  })
  .refine((agent) => agent.mcp === undefined || !ownRuns.some((name) => agent[name] !== undefined), {
    path: ['mcp'],
    message: 'only a language model uses tools: give no command, http, module or a2a',
  })
  .refine((agent) => agent.max_price === undefined || agent.a2a !== undefined, {
    path: ['max_price'],
    message: 'goes with a2a: only an agent elsewhere is paid for its work',
  })
  .refine((agent) => agent.instructions === undefined || agent.instructions_file === undefined, {
    path: ['instructions_file'],
    message: 'give either instructions or instructions_file, not both',
  })
  .superRefine((agent, context) => {
    if (!ownRuns.some((name) => agent[name] !== undefined)) return
    const given = modelFields.find((name) => agent[name] !== undefined)
    if (given === undefined) return
    const message = 'goes with a language model: give no command, http, module or a2a'
    context.addIssue({ code: 'custom', path: [given], message })
  })
export type AgentDefinition = z.infer<typeof AgentDefinition>

/** Whether something of the operator's own does the work, and no model. */
export function runsOwn(definition: AgentDefinition): boolean {
  return ownRuns.some((name) => definition[name] !== undefined)
}
