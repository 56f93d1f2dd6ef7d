import * as z from 'zod'
import { CodedError } from '../lib/errors.ts'
import { parseJson } from '../lib/json.ts'

/** What a worker needs to find its seller and to be let in. */
const Content = z.object({
  peer: z.string().min(1).max(128),
  addrs: z.array(z.string().max(512)).max(32),
  id: z.string().min(1).max(64),
  secret: z.string().min(1).max(128),
})
type JoinToken = z.infer<typeof Content>

const PREFIX = 'stoa-join_'
const TEXT_LENGTH_MAX = 16 * 1024

/** The token as one word, which an operator carries to the worker. */
export function writeJoinToken(token: JoinToken): string {
  return `${PREFIX}${Buffer.from(JSON.stringify(token)).toString('base64url')}`
}

/** @throws CodedError JOIN_TOKEN_INVALID, which does not repeat the text */
export function readJoinToken(text: string): JoinToken {
  const word = text.trim()
  const isWhole = word.startsWith(PREFIX) && word.length <= TEXT_LENGTH_MAX
  const json = isWhole ? parseJson(Buffer.from(word.slice(PREFIX.length), 'base64url')) : undefined
  const parsed = Content.safeParse(json)
  if (parsed.success) return parsed.data
  const fix = 'copy the whole line that `stoa worker invite` printed on the machine of the seller'
  throw new CodedError('JOIN_TOKEN_INVALID', `this is no join token (it begins with ${PREFIX}): ${fix}`)
}
