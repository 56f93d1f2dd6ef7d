import { CodedError } from '../../lib/errors.ts'
import { CliError, UsageError } from '../exit-code.ts'
import type { RemoteNode } from '../parts.ts'
import { printableLine } from '../text/terminal-text.ts'

/** The shortest beginning of an id of an agent that the node takes. Less is a name. */
const AGENT_ID_START_MIN = 6
/** A full agent id. Shorter text is a name or the start of an id. */
const AGENT_ID = /^[a-z2-7]{26,64}$/
const WHOLE_UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const UUID_BEGINNING = /^[0-9a-f][0-9a-f-]{3,35}$/i
const RECENT = 200

type CallOptions = { signal: AbortSignal }

/**
 * Resolves an agent reference: an id, the start of an id, a unique name, or `seller/name`.
 *
 * @throws ApiError UNKNOWN_AGENT, STARTING, AMBIGUOUS_AGENT
 */
export async function agentIdOf(
  node: Pick<RemoteNode, 'agent' | 'ownAgents'>,
  given: string,
  { signal }: CallOptions,
): Promise<string> {
  if (AGENT_ID.test(given)) return given
  try {
    return (await node.agent(given, { signal })).id
  } catch (error) {
    if (!(error instanceof CodedError) || !(error.code === 'UNKNOWN_AGENT' || error.code === 'STARTING')) throw error
    // An own agent may be off the market.
    const own = await node.ownAgents({ signal })
    const found = own.filter(({ id, name }) => name.normalize('NFC') === given.normalize('NFC') || begins(id, given))
    if (found.length === 1) return found[0]!.id
    if (error.code === 'STARTING') throw error
    throw new CliError(
      'UNKNOWN_AGENT',
      `no agent is named ${JSON.stringify(printableLine(given, 80))}${orStart(given)}: stoa agent discover lists the names and ids`,
      { cause: error },
    )
  }
}

/** Resolves an order id, or the start of an id among the newest orders. @throws CliError, UsageError */
export async function orderIdOf(
  node: Pick<RemoteNode, 'orders'>,
  given: string,
  { signal }: CallOptions,
): Promise<string> {
  const text = given.replace(/(…|\.\.\.)$/, '').toLowerCase()
  if (WHOLE_UUID.test(text) || !UUID_BEGINNING.test(text)) return given
  const { items } = await node.orders({ limit: RECENT }, { signal })
  return theOne(
    given,
    items.map(({ id }) => id).filter((id) => id.startsWith(text)),
    'order',
  )
}

/** Resolves an approval id, or the start of the id of a pending one. @throws UsageError for several */
export async function approvalIdOf(
  node: Pick<RemoteNode, 'approvals'>,
  given: string,
  { signal }: CallOptions,
): Promise<string> {
  const text = given.replace(/(…|\.\.\.)$/, '').toLowerCase()
  if (WHOLE_UUID.test(text) || !UUID_BEGINNING.test(text)) return given
  const pending = await node.approvals({ status: 'pending' }, { signal })
  const found = pending.map(({ id }) => id).filter((id) => id.startsWith(text))
  return found.length === 0 ? given : theOne(given, found, 'approval', 'approvals')
}

export async function callerIdOf(
  node: Pick<RemoteNode, 'sessions'>,
  agentId: string,
  given: string,
  { signal }: CallOptions,
): Promise<string> {
  if (given.length < 6 || given.length >= 50) return given
  const { items } = await node.sessions(agentId, { limit: RECENT }, { signal })
  const ids = items.map(({ caller_id }) => caller_id)
  if (ids.includes(given)) return given
  const found = ids.filter((id) => id.startsWith(given) || id.startsWith(`did:peer:0${given}`))
  return found.length === 0 ? given : theOne(given, found, 'session')
}

/** What has an id of which the start is enough, and the code of the error if there is none. */
const unknownCodes = {
  order: 'UNKNOWN_ORDER',
  approval: 'UNKNOWN_APPROVAL',
  session: 'UNKNOWN_SESSION',
  payment: 'UNKNOWN_PAYMENT',
  channel: 'UNKNOWN_CHANNEL',
} as const

/** @param ids the newest that start with `given` @throws CliError for none, UsageError for several */
export function theOne(
  given: string,
  ids: readonly string[],
  what: keyof typeof unknownCodes,
  group: string = what,
): string {
  const [id, another] = [...new Set(ids)]
  if (id !== undefined && another === undefined) return id
  const where = `with ${printableLine(given, 64)}: stoa ${group} list --json shows the full ids`
  if (id !== undefined) throw new UsageError(`several ${what}s start ${where}`)
  throw new CliError(unknownCodes[what], `none of the newest ${what}s starts ${where}`)
}

function begins(id: string, given: string): boolean {
  return given.length >= AGENT_ID_START_MIN && id.startsWith(given)
}

/** Says that text which could be the start of an id is too short. */
export function orStart(given: string): string {
  const isShort = given.length < AGENT_ID_START_MIN && /^[a-z2-7]+$/.test(given)
  return isShort ? `, and the start of an id has at least ${AGENT_ID_START_MIN} characters` : ''
}
