import { open } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { AgentDefinition } from '../schema/agent.ts'
import { INSTRUCTIONS_LENGTH_MAX } from '../schema/limits.ts'

/** A character takes at most 4 bytes of UTF-8. */
const BYTES_MAX = 4 * INSTRUCTIONS_LENGTH_MAX

/** Returns the model's instruction: the private instructions, or else the agent's description (D10, D47). */
export async function instructionOf(
  { instructions, instructions_file, description }: AgentDefinition,
  dataDir: string,
): Promise<{ instruction: string } | { problem: string }> {
  if (instructions_file === undefined) return { instruction: instructions ?? description }
  const path = resolve(dataDir, instructions_file)
  try {
    const instruction = (await readText(path)).trim()
    if (instruction === '') return { problem: `${path} is empty` }
    if (instruction.length > INSTRUCTIONS_LENGTH_MAX)
      return { problem: `${path} is longer than ${INSTRUCTIONS_LENGTH_MAX} characters` }
    return { instruction }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return { problem: `there is no file ${path}` }
    return { problem: `${path} cannot be read as UTF-8 text${code === undefined ? '' : ` (${code})`}` }
  }
}

async function readText(path: string): Promise<string> {
  await using file = await open(path, 'r')
  const stats = await file.stat()
  if (!stats.isFile()) throw new Error('not a file')
  const { buffer, bytesRead } = await file.read(Buffer.alloc(BYTES_MAX + 1), 0, BYTES_MAX + 1, 0)
  return new TextDecoder('utf-8', { fatal: true }).decode(buffer.subarray(0, bytesRead))
}
