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
  const isOne = word.startsWith(PREFIX) && word.length <= TEXT_LENGTH_MAX
  const parsed = Content.safeParse(isOne ? parseJson(Buffer.from(word.slice(PREFIX.length), 'base64url')) : undefined)
  if (parsed.success) return parsed.data
  const isPart = isOne || (word !== '' && PREFIX.startsWith(word))
  const what = isPart ? 'this join token is not whole' : `this is no join token (it begins with ${PREFIX})`
  const fix = 'copy the whole line that `stoa worker invite` printed on the machine of the seller'
  throw new CodedError('JOIN_TOKEN_INVALID', `${what}: ${fix}`)
}
