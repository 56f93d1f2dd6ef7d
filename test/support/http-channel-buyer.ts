import { decodePaymentResponseHeader } from '@x402/core/http'
import { BatchSettlementEvmScheme as ReferenceClient } from '@x402/evm/batch-settlement/client'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { NETWORK } from '../../devnet/chain.ts'
import type { Devnet } from '../../devnet/devnet.ts'
import { accountOf } from './test-channels.ts'

export type ChannelPurchase = { status: number; text: string; charged: string | undefined }

/**
 * A buyer as the documentation of the reference client of `batch-settlement` builds one.
 *
 * @param options.pay sends a request with its payment
 */
export async function openChannelBuyer(
  devnet: Devnet,
  options: { funds: bigint; pay(request: Request): Promise<Response> },
) {
  const [wallet, session] = [accountOf(), accountOf()]
  await devnet.fund(wallet.address, options.funds)
  const reads = { readContract: (call: object) => devnet.chain.client.readContract(call as never) }
  const signTypedData = (message: object) => wallet.signTypedData(message as never)
  const sign = (message: object) => session.signTypedData(message as never)
  const client = new ReferenceClient({ address: wallet.address, signTypedData, ...reads } as never, {
    voucherSigner: { address: session.address, signTypedData: sign } as never,
  })
  const sending: typeof fetch = (input, init) => {
    const request = new Request(input, init)
    return request.headers.has('payment-signature') ? options.pay(request) : fetch(request)
  }
  const paying = wrapFetchWithPaymentFromConfig(sending, { schemes: [{ network: NETWORK, client }] })

  return {
    address: wallet.address,
    async buy(url: string, task: string): Promise<ChannelPurchase> {
      const headers = { 'content-type': 'application/json' }
      return purchaseOf(await paying(url, { method: 'POST', headers, body: JSON.stringify({ task }) }))
    },
    refund: (url: string) => client.refund(url),
  }
}

export async function purchaseOf(answer: Response): Promise<ChannelPurchase> {
  const header = answer.headers.get('payment-response')
  const settled = header === null ? undefined : decodePaymentResponseHeader(header)
  const { extra } = (settled ?? {}) as { extra?: { chargedAmount?: string } }
  return { status: answer.status, text: await answer.text(), charged: extra?.chargedAmount }
}
