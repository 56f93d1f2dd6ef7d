import type { UnixMs } from '../lib/clock.ts'
import type { ChannelConfig, Charge } from '../schema/channel.ts'
import { doorOfCaller } from '../schema/door.ts'
import type { Hex } from '../schema/primitives.ts'
import { type NewExchange, recordWithPayment } from './exchanges.ts'
import { toBytes } from './hex.ts'
import { packMetered } from './metered-row.ts'
import { NEXT_EXCHANGE } from './new-ids.ts'
import { type Query, run, together } from './query.ts'
import { packReceipt } from './receipt-row.ts'

/** A call on a channel that has ended: a payment like others, which its channel covers (ADR-35). */
export type ChannelCall = {
  /** See payments/channels/call-id.ts. */
  id: Hex
  /** Its peer bought it. The channel may have another one since. */
  peerId: string
  /** What it has cost. Undefined: it failed, and costs nothing. */
  charge: Charge | undefined
  /** What was run, with its result or its error, and with the receipt. */
  exchange: NewExchange
}

/** The channel that covers the calls. */
type Covering = { id: Hex; network: string; config: Pick<ChannelConfig, 'token' | 'receiver' | 'payer'> }

/** A call has no authorization. The index of authorizations does not have it. */
const NOTHING = new Uint8Array(0)

const RECORD = `
  INSERT INTO payments
    (id, state, agent_id, peer_id, correlation_id, network, asset, pay_to, amount, max_timeout_s, payer, authorization_nonce,
     valid_after_s, valid_before_s, signature, channel, channel_seq, channel_total, metered, error, owner, door, receipt,
     created_at, updated_at, exchange_id)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, 0, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ${NEXT_EXCHANGE})
  ON CONFLICT DO NOTHING`

/** Stores the payment of a call and its exchange. False: there is a payment of this id. The change must then throw. */
export function recordCall(
  { id, peerId, charge, exchange }: ChannelCall,
  { channel, process, now }: { channel: Covering; process: string; now: UnixMs },
): Query<boolean> {
  const { network, config } = channel
  const payment = run(
    RECORD,
    ...[toBytes(id), charge === undefined ? 'voided' : 'settled', exchange.agentId, peerId, exchange.correlationId],
    ...[network, config.token, config.receiver, charge?.amount ?? 0n, config.payer],
    ...[NOTHING, NOTHING, toBytes(channel.id), charge?.seq ?? null],
    charge?.total.toString() ?? null,
    charge === undefined ? null : packMetered(charge),
    ...[exchange.error ?? null, process, doorOfCaller(peerId) ?? null],
    ...[exchange.receipt === undefined ? null : packReceipt(exchange.receipt), exchange.createdAt, now],
  )
  return together(payment, recordWithPayment(exchange)).map(([stored]) => stored === 1)
}
