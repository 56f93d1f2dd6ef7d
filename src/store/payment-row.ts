import type { UnixMs } from '../lib/clock.ts'
import type { Charge } from '../schema/channel.ts'
import { type Door, doorOf } from '../schema/door.ts'
import type { PaymentRequirements, SignedAuthorization } from '../schema/payment.ts'
import type { Hex } from '../schema/primitives.ts'
import type { SignedReceipt } from '../schema/receipt.ts'
import { type AuthorizationRow, authorizationOf } from './authorization-row.ts'
import { toHex } from './hex.ts'
import { unpackMetered } from './metered-row.ts'
import { unpackReceipt } from './receipt-row.ts'

export type PaymentState = 'authorized' | 'owed' | 'settled' | 'voided' | 'unsettled'

/** A payment at its claim: verified, with an unused nonce. */
export type Claim = {
  id: Hex
  agentId: string
  peerId: string
  correlationId: string
  /** Undefined for a preemptive payment. */
  challengeNonce: Hex | undefined
  requirements: PaymentRequirements
  signed: SignedAuthorization
  /**
   * Stored if the payment settles before the agent runs, so that a crash loses no paid work. Emptied when the payment
   * is given up: payers with empty accounts must not fill the disk with tasks that never run (T19).
   */
  task?: string | undefined
  /** A digest of buyer, agent and task, if the buyer cannot ask for its result by its payment: see deferred.ts. */
  awaited?: Uint8Array | undefined
  /** The door by which the payment came. Undefined: libp2p. */
  door?: Door | undefined
  /** A digest of the request that the payment pays for, at doors where the same request may be sent again. */
  boundTo?: Uint8Array | undefined
}

export type StoredPayment = Claim & {
  state: PaymentState
  attempts: number
  nextAttemptAt: UnixMs | undefined
  unclear: boolean
  blamed: boolean
  txHash: Hex | undefined
  error: string | undefined
  /** The transaction that refunded the payment. */
  refundTx?: Hex | undefined
  /** The receipt signed with the result; undefined before there is a result. */
  receipt: SignedReceipt | undefined
  /** True if the agent did its work. */
  ran: boolean
  /** The channel that a call was on, and its charge. A call that failed has none. */
  channel?: { id: Hex; charge: Charge | undefined }
  /** How often it was run after its settlement without a result, and when last. Undefined: never. */
  failedRuns?: { count: number; lastAt: UnixMs }
  /** True if it was voided because its process lost the machine of the run: another process may claim it once more. */
  mayMove?: true
  createdAt: UnixMs
  updatedAt: UnixMs
}

/** The value of the column `running` of a voided payment that may be claimed once more. */
export const MAY_MOVE = 3

/**
 * SQL condition for owed or given-up payments whose work was done. A payment that settles first has a task from the
 * start, and an exchange once it has run.
 */
export const WORK_DONE = '(task IS NULL OR exchange_id IS NOT NULL)'

/** SQL condition for settled work that has no result, and whose payment nobody is paying back. */
export const UNRUN = `
  state = 'settled' AND refund_tx IS NULL AND task IS NOT NULL AND exchange_id IS NULL
  AND NOT EXISTS (SELECT 1 FROM chain_transactions t WHERE t.purpose = 'refund 0x' || lower(hex(payments.id)) AND t.state IN ('sent', 'mined'))`

/** The same condition as `WORK_DONE` for a payment in memory. */
export function isWorkDone({ task, ran }: Pick<StoredPayment, 'task' | 'ran'>): boolean {
  return task === undefined || ran
}

export type PaymentRow = {
  no: number
  exchange_id: number | null
  id: Uint8Array
  state: PaymentState
  agent_id: string
  peer_id: string
  correlation_id: string
  challenge_nonce: Uint8Array | null
  task: string | null
  awaited: Uint8Array | null
  door: string | null
  bound_to: Uint8Array | null
  attempts: number
  next_attempt_at: number | null
  unclear: number
  blamed: number | null
  tx_hash: Uint8Array | null
  error: string | null
  refund_tx: Uint8Array | null
  receipt: Uint8Array | null
  running: number
  failed_runs: number
  failed_run_at: number | null
  channel: Uint8Array | null
  channel_seq: number | null
  channel_total: string | null
  metered: string | null
  created_at: number
  updated_at: number
} & AuthorizationRow

export function toPayment(row: PaymentRow): StoredPayment {
  return {
    id: toHex(row.id),
    state: row.state,
    agentId: row.agent_id,
    peerId: row.peer_id,
    correlationId: row.correlation_id,
    ran: row.exchange_id !== null,
    challengeNonce: row.challenge_nonce === null ? undefined : toHex(row.challenge_nonce),
    ...authorizationOf(row),
    ...(row.channel !== null && channelCallOf(row, row.channel)),
    task: row.task ?? undefined,
    awaited: row.awaited ?? undefined,
    door: doorOf(row.door, row.peer_id),
    boundTo: row.bound_to ?? undefined,
    attempts: row.attempts,
    nextAttemptAt: row.next_attempt_at ?? undefined,
    unclear: row.unclear === 1,
    blamed: row.blamed === 1,
    txHash: row.tx_hash === null ? undefined : toHex(row.tx_hash),
    error: row.error ?? undefined,
    ...(row.refund_tx !== null && { refundTx: toHex(row.refund_tx) }),
    receipt: row.receipt === null ? undefined : unpackReceipt(row.receipt, toHex(row.id), row),
    ...(row.failed_runs > 0 && { failedRuns: { count: row.failed_runs, lastAt: row.failed_run_at ?? 0 } }),
    ...(row.state === 'voided' && row.running === MAY_MOVE && { mayMove: true as const }),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}

/** A call on a channel has no authorization of its own. Its id stands for the nonce. */
function channelCallOf(row: PaymentRow, channel: Uint8Array): Pick<StoredPayment, 'channel' | 'signed'> {
  const { signed, requirements } = authorizationOf(row)
  const { channel_seq: seq, channel_total: total } = row
  const { units, cut } = unpackMetered(row.metered)
  const counted = { ...(units && { units }), ...(cut && { cut }) }
  const charge =
    seq === null || total === null ? undefined : { amount: requirements.amount, total: BigInt(total), seq, ...counted }
  const authorization = { ...signed.authorization, nonce: toHex(row.id) }
  return { channel: { id: toHex(channel), charge }, signed: { ...signed, authorization } }
}
