import * as z from 'zod'
import { Price } from './amount.ts'

/** The longest an agent may run, in seconds, unless its entry says less. */
export const AGENT_TIMEOUT_SECONDS = 120

/** Text that survives UTF-8: no lone surrogates. */
export const wellFormed = (text: string) => text.isWellFormed()

export const AgentName = z
  .string()
  .trim()
  .min(1, 'name is empty')
  .max(80, 'name is longer than 80 characters')
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what a name must not hold
  .regex(/^[^\u0000-\u001f\u007f]*$/, 'name holds control characters')
  .refine(wellFormed, 'name is not well-formed Unicode')
export const AgentDescription = z
  .string()
  .trim()
  .min(1, 'description is empty')
  .max(4000, 'description is longer than 4000 characters')
  .refine(wellFormed, 'description is not well-formed Unicode')
export const AgentTags = z
  .array(z.string().trim().min(1).max(32).refine(wellFormed, 'a tag is not well-formed Unicode'))
  .max(16)

/** What a seller writes to register an agent: the body of POST /agents and an entry of agents.yaml. */
export const AgentDefinition = z
  .strictObject({
    name: AgentName,
    description: AgentDescription,
    price: Price,
    /** What it runs (D10): `provider/model`, `builtin/<name>`; none: the best that is available. */
    model: z.string().trim().min(1).max(200).optional(),
    /** An own program instead of a model: argv, task on stdin, result on stdout. */
    command: z.array(z.string().min(1).max(4096)).min(1).max(64).optional(),
    tags: AgentTags.optional(),
    timeout_seconds: z.int().min(1).max(3600).optional(),
    output_bytes_max: z
      .int()
      .min(1)
      .max(4 * 1024 * 1024)
      .optional(),
    /** Name of the environment variable that holds this agent's model key. Never the key itself. */
    api_key_env: z
      .string()
      .regex(/^[A-Z][A-Z0-9_]{0,127}$/, 'api_key_env is the NAME of an environment variable, such as OPENAI_API_KEY')
      .optional(),
  })
  .refine((agent) => agent.model === undefined || agent.command === undefined, {
    path: ['command'],
    message: 'give either model or command, not both',
  })
export type AgentDefinition = z.infer<typeof AgentDefinition>
