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

const VariableName = z
  .string()
  .regex(/^[A-Z][A-Z0-9_]{0,127}$/, 'is the NAME of an environment variable, such as OPENAI_API_KEY')
const Argv = z.array(z.string().min(1).max(4096)).min(1).max(64)
const HttpUrl = z
  .string()
  .max(2048)
  .refine((text) => /^https?:$/.test(URL.parse(text)?.protocol ?? ''), 'is not an http(s) URL')
  .refine((text) => !/^https?:\/\/[^/?#]*@/.test(text), 'holds a name or a password: keys never stand in this file')

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

/** What may do the work instead of a model. */
export const ownRuns = ['command', 'http', 'module', 'a2a'] as const

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
    /** MCP servers whose tools a language model may use. */
    mcp: z.array(ToolServer).min(1).max(8).optional(),
    tags: AgentTags.optional(),
    timeout_seconds: z.int().min(1).max(3600).optional(),
    output_bytes_max: z
      .int()
      .min(1)
      .max(4 * 1024 * 1024)
      .optional(),
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
export type AgentDefinition = z.infer<typeof AgentDefinition>

/** Whether something of the operator's own does the work, and no model. */
export function runsOwn(definition: AgentDefinition): boolean {
  return ownRuns.some((name) => definition[name] !== undefined)
}
