import type { UnixMs } from '../lib/clock.ts'
import type { ChannelConfig, Charge } from '../schema/channel.ts'
import { doorOfCaller } from '../schema/door.ts'
import type { Hex } from '../schema/primitives.ts'
import { EXCHANGE_OF_PAYMENT, exchangeOfPayment, type NewExchange, recordExchange } from './exchanges.ts'
import { toBytes } from './hex.ts'
import { packMetered } from './metered-row.ts'
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

/** Bytes of the parts of a call's number. Together they are not 32: see `numberOf`. */
const NUMBER_BYTES = { channel: 8, seq: 6, id: 16 }
const SEQ_SHOWN_MAX = 2 ** (8 * NUMBER_BYTES.seq) - 1

const RECORD = `
  INSERT INTO payments
    (id, state, agent_id, peer_id, correlation_id, network, asset, pay_to, amount, max_timeout_s, payer, authorization_nonce,
     valid_after_s, valid_before_s, signature, channel, channel_seq, channel_total, metered, error, owner, door, created_at,
     updated_at)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, 0, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
const NOTE_EXCHANGE = `UPDATE payments SET exchange_id = ${EXCHANGE_OF_PAYMENT}, receipt = ? WHERE id = ?`

/** Stores the payment of a call and its exchange. False: there is a payment of this id. The change must then throw. */
export function recordCall(
  { id, peerId, charge, exchange }: ChannelCall,
  { channel, process, now }: { channel: Covering; process: string; now: UnixMs },
): Query<boolean> {
  const { network, config } = channel
  const [bytes, inChannel] = [toBytes(id), toBytes(channel.id)]
  const payment = run(
    RECORD,
    ...[bytes, charge === undefined ? 'voided' : 'settled', exchange.agentId, peerId, exchange.correlationId],
    ...[network, config.token, config.receiver, charge?.amount ?? 0n, config.payer],
    ...[numberOf(bytes, inChannel, charge), new Uint8Array(0), inChannel, charge?.seq ?? null],
    charge?.total.toString() ?? null,
    charge === undefined ? null : packMetered(charge),
    ...[exchange.error ?? null, process, doorOfCaller(peerId) ?? null, exchange.createdAt, now],
  )
  const receipt = exchange.receipt === undefined ? null : packReceipt(exchange.receipt)
  return together(
    payment,
    recordExchange({ ...exchange, paymentId: id }),
    run(NOTE_EXCHANGE, ...exchangeOfPayment(exchange), receipt, bytes),
  ).map(([stored]) => stored === 1)
}

/**
 * What a call has where an authorization has its nonce: one number for each id. The numbers of charges rise, so calls of one
 * turn lie together in the index. It never has 32 bytes: a payer could use up the number of a call before it is made.
 */
function numberOf(id: Uint8Array, channel: Uint8Array, { seq }: { seq?: number } = {}): Uint8Array {
  const rising = Buffer.alloc(NUMBER_BYTES.seq)
  rising.writeUIntBE(Math.min(seq ?? 0, SEQ_SHOWN_MAX), 0, NUMBER_BYTES.seq)
  return Buffer.concat([channel.subarray(0, NUMBER_BYTES.channel), rising, id.subarray(0, NUMBER_BYTES.id)])
}
