import type { Hex } from '../../schema/primitives.ts'
import type { SignedReceipt } from '../../schema/signed-receipt.ts'
import { type Exchange, outputBody, type X402ServerDeps } from './exchange.ts'
import { VERSION, writeMessage } from './messages.ts'

/** What a payment has bought. */
export type Delivered = { output: string; txHash: Hex | undefined; receipt: SignedReceipt | undefined }

export async function respond(
  tokenId: string,
  paid: { id: Hex } & Delivered,
  exchange: Exchange,
  deps: X402ServerDeps,
): Promise<void> {
  await writeMessage(
    exchange.stream,
    'x402.response',
    {
      version: VERSION,
      correlation_id: exchange.correlationId,
      payment_id: paid.id,
      tx_hash: paid.txHash ?? '',
      body: outputBody(paid.output, exchange),
      seller_did: deps.sellerDid,
      seller_token_id: tokenId,
      ...(paid.receipt !== undefined && { receipt: paid.receipt }),
    },
    exchange.signal,
  )
}
