import type * as z from 'zod'
import { describeRefusal } from '../../config/config-error.ts'
import { readSecretFile } from '../../store/secret-file.ts'
import type { Context } from '../command.ts'
import { UsageError } from '../exit-code.ts'

/** Bytes read from standard input. No key is longer. */
const STDIN_BYTES_MAX = 64 * 1024

/**
 * Reads a secret from a file, or from standard input (`-`). From then on it is hidden in every output.
 *
 * @throws UsageError that never contains the secret
 */
export async function readSecretText<T extends string>(
  { io, redactor }: Pick<Context, 'io' | 'redactor'>,
  path: string,
  { flag, schema }: { flag: string; schema: z.ZodType<T> },
): Promise<T> {
  if (path === '-' && io.stdin.isTty) {
    throw new UsageError(
      `${flag} -: the terminal would show a typed key: pipe the key in, or run stoa init without --yes`,
    )
  }
  const text = (path === '-' ? await readAll(io.stdin, flag) : await readSecretFile(path))?.trim()
  if (text === undefined) throw new UsageError(`${flag}: the file ${JSON.stringify(path)} does not exist`)
  redactor.add(text)
  const parsed = schema.safeParse(text)
  if (parsed.success) return parsed.data
  throw new UsageError(describeRefusal(flag, undefined, parsed.error.issues[0]!))
}

async function readAll(input: AsyncIterable<Uint8Array>, flag: string): Promise<string> {
  const parts: Uint8Array[] = []
  let length = 0
  for await (const part of input) {
    length += part.length
    if (length > STDIN_BYTES_MAX)
      throw new UsageError(`${flag} -: standard input has more than a key: pipe in only the key`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}
