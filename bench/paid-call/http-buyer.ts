import { ExactEvmScheme } from '@x402/evm'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { privateKeyToAccount } from 'viem/accounts'
import { type LoadPlan, runLoad } from '../load.ts'
import { servePart } from '../part.ts'
import { BUYER_KEY, NETWORK, TASK } from './terms.ts'

/** The buyer over HTTP: `@x402/fetch` with a viem account. */
servePart(async ({ seller = '' }) => {
  const client = new ExactEvmScheme(privateKeyToAccount(BUYER_KEY))
  const fetchAndPay = wrapFetchWithPaymentFromConfig(fetch, { schemes: [{ network: NETWORK, client }] })
  const body = JSON.stringify({ input: TASK })
  const call = async () => {
    const answer = await fetchAndPay(seller, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
    const { output } = (await answer.json()) as { output?: string }
    const paid = answer.headers.get('payment-response')
    if (output !== TASK || paid === null) throw new Error(`status ${answer.status}: not the result that was paid for`)
  }
  return { ready: {}, answer: (question) => runLoad(question as LoadPlan, call) }
})
