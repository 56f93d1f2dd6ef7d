import { decodePaymentResponseHeader } from '@x402/core/http'
import { BatchSettlementEvmScheme as ReferenceClient } from '@x402/evm/batch-settlement/client'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { NETWORK } from '../../devnet/chain.ts'
import type { Devnet } from '../../devnet/devnet.ts'
import { accountOf } from './test-channels.ts'

export type ChannelPurchase = { status: number; text: string; charged: string | undefined }

/** Who pays, and who signs the vouchers. */
export type ChannelKeys = Record<'wallet' | 'session', ReturnType<typeof accountOf>>

/**
 * The reference client of `batch-settlement`, as its documentation builds one.
 *
 * @param sending sends each request, with or without its payment
 */
export function referenceClient(
  { chain }: Pick<Devnet, 'chain'>,
  { wallet, session }: ChannelKeys,
  sending: typeof fetch,
) {
  const reads = { readContract: (call: object) => chain.client.readContract(call as never) }
  const signTypedData = (message: object) => wallet.signTypedData(message as never)
  const sign = (message: object) => session.signTypedData(message as never)
  const client = new ReferenceClient({ address: wallet.address, signTypedData, ...reads } as never, {
    voucherSigner: { address: session.address, signTypedData: sign } as never,
  })
  return { client, pay: wrapFetchWithPaymentFromConfig(sending, { schemes: [{ network: NETWORK, client }] }) }
}

/**
 * A buyer with money and keys of its own.
 *
 * @param options.pay sends a request with its payment
 */
export async function openChannelBuyer(
  devnet: Devnet,
  options: { funds: bigint; pay(request: Request): Promise<Response> },
) {
  const [wallet, session] = [accountOf(), accountOf()]
  await devnet.fund(wallet.address, options.funds)
  const sending: typeof fetch = (input, init) => {
    const request = new Request(input, init)
    return request.headers.has('payment-signature') ? options.pay(request) : fetch(request)
  }
  const { client, pay } = referenceClient(devnet, { wallet, session }, sending)

  return {
    address: wallet.address,
    async buy(url: string, task: string): Promise<ChannelPurchase> {
      const headers = { 'content-type': 'application/json' }
      return purchaseOf(await pay(url, { method: 'POST', headers, body: JSON.stringify({ task }) }))
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
