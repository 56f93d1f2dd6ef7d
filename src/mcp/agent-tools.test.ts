import { afterEach, expect, test } from 'vitest'
import { agentId, payTo, signed, usdc } from '../../test/support/payments.ts'
import { TestSeller } from '../../test/support/x402-seller.ts'
import { DoorSales } from '../protocols/doors/door-sales.ts'
import { DoorTerms } from '../protocols/doors/terms.ts'
import { PeerError } from '../protocols/peer-error.ts'
import { PaymentEnvelope } from '../schema/payment.ts'
import { createAgentTools } from './agent-tools.ts'

let seller: TestSeller
afterEach(() => seller.stop())

test('T23 a seller that has stopped selling still gives what was paid for, and says nothing else of the money', async () => {
  seller = await new TestSeller().start()
  let isStopped = false
  const find: (typeof seller.deps)['agents']['find'] = (id) => {
    if (isStopped) throw new PeerError('OVERLOADED', 'this seller has stopped selling')
    return seller.deps.agents.find(id)
  }
  const sales = { ...seller.deps, agents: { ...seller.deps.agents, find } }
  const signer = sales.receiptSigner
  const text = { name: 'Echo', description: 'Says it again', tags: [] }
  const tools = createAgentTools({
    ...{ sales, signer, endpoint: () => 'http://127.0.0.1/mcp', doorSales: new DoorSales(sales) },
    terms: new DoorTerms({ clock: seller.clock, asset: usdc, payTo, signer }),
    agents: () => [{ id: agentId, price: 10_000n, text }],
  })
  const [tool] = tools.list()
  const { envelope } = signed(seller.clock.now())
  const { payload } = PaymentEnvelope.encode(envelope)
  const payment = { x402Version: 1, scheme: 'exact', network: 'base-sepolia', payload }
  const call = (task: string) =>
    tools.call(tool!, {
      task,
      meta: { 'x402/payment': payment },
      isExtended: false,
      signal: new AbortController().signal,
    })
  expect(await call('work')).toMatchObject({ content: [{ text: 're: work' }] })
  isStopped = true
  expect(await call('work')).toMatchObject({ content: [{ text: 're: work' }] })
  expect(await call('other')).toMatchObject({ isError: true, _meta: { 'stoa/error': { code: 'PAYMENT_USED' } } })
  expect(seller.runs).toHaveLength(1)
})
