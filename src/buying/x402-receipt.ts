import { randomUUID } from 'node:crypto'
import type { Catalog } from '../listings/catalog.ts'
import { MarketError } from '../listings/market-error.ts'
import { checkX402Receipt } from '../payments/x402-receipt.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { StreamPool } from '../protocols/streams.ts'
import { askX402Receipt } from '../protocols/x402/client.ts'
import type { SignedX402Receipt } from '../schema/receipt.ts'
import type { StoredReceipt } from '../store/receipts.ts'
import { onStream } from './stream-lease.ts'

const ANSWER_TIMEOUT_MS = 20_000

type X402ReceiptDeps = {
  catalog: Pick<Catalog, 'resolve' | 'resourceOf'>
  streams: StreamPool
  callerDid: string
}

/**
 * Asks the seller of a purchase for its receipt as x402 has it. Pays nothing: the payment only proves who asks.
 *
 * @throws MarketError SELLER_UNREACHABLE, SELLER_FAILED; PeerError if the seller answers with an error
 */
export async function askForX402Receipt(
  { agentId, peerId, requirements, signed, receipt }: StoredReceipt,
  { catalog, streams, callerDid }: X402ReceiptDeps,
  outer: AbortSignal,
): Promise<SignedX402Receipt> {
  // A node that signs no receipts may not know the method. It would take the question for a payment.
  if (receipt === undefined) {
    throw new MarketError(
      'SELLER_FAILED',
      'the seller sent no valid receipt with the result: it is not asked for another',
    )
  }
  if (signed === undefined) {
    const why = 'a payment channel paid this call, so there is no transaction that a receipt of x402 could name'
    throw new MarketError('SELLER_FAILED', `${why}: the receipt that came with the result holds`)
  }
  const { network, payTo } = requirements
  const payer = signed.authorization.from
  const { scheme } = requirements
  const payment = { x402_version: 2, scheme, network, server_nonce: 'preemptive', payer, payload: signed } as const
  const call = { correlationId: randomUUID(), resource: catalog.resourceOf(agentId), callerDid }
  const seller = { peerId, addrs: catalog.resolve(agentId)?.addrs ?? [] }
  const signal = AbortSignal.any([outer, AbortSignal.timeout(ANSWER_TIMEOUT_MS)])
  const ask = (fresh: boolean) =>
    onStream({ seller, streams, fresh }, ({ stream }) => askX402Receipt(stream, call, payment, signal), signal)
  // A pooled stream may be dead.
  const sent = await ask(false)
    .catch((error: unknown) => (error instanceof PeerError || signal.aborted ? Promise.reject(error) : ask(true)))
    .catch((error: unknown) => {
      outer.throwIfAborted()
      throw said(error)
    })
  const checked = checkX402Receipt(sent, { network, payTo, agentId: call.resource, payer })
  if (checked.ok) return checked.receipt
  throw new MarketError('SELLER_FAILED', `the seller sent a wrong receipt: ${checked.reason}`)
}

function said(error: unknown): unknown {
  if (!(error instanceof PeerError)) {
    const reason = error instanceof Error ? error.message : 'no answer'
    return new MarketError('SELLER_UNREACHABLE', `the seller cannot be reached: ${reason}`, { cause: error })
  }
  if (error.code !== 'INVALID_MESSAGE') return error
  const reason = 'the seller does not know receipts of x402; the receipt that came with the result holds'
  return new MarketError('SELLER_FAILED', reason, { cause: error })
}
