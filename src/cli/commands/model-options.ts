import { resolve } from 'node:path'
import * as z from 'zod'
import { countText } from '../../config/values.ts'
import { defined } from '../../lib/defined.ts'
import { reasoningEfforts } from '../../schema/agent.ts'
import { ANSWER_TOKENS_MAX } from '../../schema/limits.ts'
import { option, type ValuesOf } from '../command.ts'

const TemperatureText = z
  .string()
  .transform(Number)
  .refine((value) => value >= 0 && value <= 2, 'a number from 0 to 2')

/** A language model's instructions and parameters. They are private, while everybody can read the description (D47). */
export const modelOptions = {
  instructions: option(
    '--instructions <text>',
    'instructions for the model; private (default: the description)',
    z.string().min(1, 'a text'),
  ),
  temperature: option('--temperature <number>', 'how random the answers of the model are, 0 to 2', TemperatureText),
  maxOutputTokens: option(
    '--max-output-tokens <count>',
    'the longest answer of the model, in tokens',
    countText(ANSWER_TOKENS_MAX),
  ),
  reasoning: option(
    '--reasoning <effort>',
    `how much the model reasons before it answers: ${reasoningEfforts.join(', ')}`,
    z.enum(reasoningEfforts, `one of ${reasoningEfforts.join(', ')}`),
  ),
} as const

export const instructionsFileOption = option(
  '--instructions-file <path>',
  'a file with the instructions; the node reads it at each start; private',
  z.string().min(1, 'a path'),
)

type ModelFlags = ValuesOf<typeof modelOptions & { instructionsFile: typeof instructionsFileOption }>

/**
 * Returns the given fields of a definition. Stores the full path of a file, because a node may start in another
 * directory.
 */
export function readModelOptions(flags: ModelFlags) {
  const { instructions, instructionsFile, temperature, maxOutputTokens, reasoning } = flags
  const instructions_file = instructionsFile === undefined ? undefined : resolve(instructionsFile)
  return defined({ instructions, instructions_file, temperature, max_output_tokens: maxOutputTokens, reasoning })
}
