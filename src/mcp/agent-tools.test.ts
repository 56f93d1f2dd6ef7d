import { afterEach, expect, test } from 'vitest'
import { notedCheck } from '../../test/support/noted-check.ts'
import { agentId, payTo, signed, usdc } from '../../test/support/payments.ts'
import { TestSeller } from '../../test/support/x402-seller.ts'
import { DoorSales } from '../protocols/doors/door-sales.ts'
import type { PaymentCheck } from '../protocols/doors/payment-check.ts'
import { DoorTerms } from '../protocols/doors/terms.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { PaidRunDeps } from '../protocols/x402/exchange.ts'
import { PaymentEnvelope } from '../schema/payment.ts'
import { createAgentTools } from './agent-tools.ts'

let seller: TestSeller
afterEach(() => seller.stop())

/** The agent of a seller as an MCP tool, and calls of it with one payment. */
function paidTool(sales: PaidRunDeps) {
  const signer = sales.receiptSigner
  const text = { name: 'Echo', description: 'Says it again', tags: [] }
  const tools = createAgentTools({
    ...{ sales, signer, endpoint: () => 'http://127.0.0.1/mcp', doorSales: new DoorSales(sales) },
    terms: new DoorTerms({ clock: seller.clock, asset: usdc, payTo, signer }),
    agents: () => [{ id: agentId, price: 10_000n, text }],
  })
  const [tool] = tools.list()
  const { payload } = PaymentEnvelope.encode(signed(seller.clock.now()).envelope)
  const payment = { x402Version: 1, scheme: 'exact', network: 'base-sepolia', payload }
  return (task: string, check?: PaymentCheck) =>
    tools.call(tool!, {
      ...{ task, check },
      meta: { 'x402/payment': payment },
      isExtended: false,
      signal: new AbortController().signal,
    })
}

test('T23 a seller that has stopped selling still gives what was paid for, and says nothing else of the money', async () => {
  seller = await new TestSeller().start()
  let isStopped = false
  const find: (typeof seller.deps)['agents']['find'] = (id) => {
    if (isStopped) throw new PeerError('OVERLOADED', 'this seller has stopped selling')
    return seller.deps.agents.find(id)
  }
  const sales = { ...seller.deps, agents: { ...seller.deps.agents, find } }
  const call = paidTool(sales)
  expect(await call('work')).toMatchObject({ content: [{ text: 're: work' }] })
  isStopped = true
  expect(await call('work')).toMatchObject({ content: [{ text: 're: work' }] })
  expect(await call('other')).toMatchObject({ isError: true, _meta: { 'stoa/error': { code: 'PAYMENT_USED' } } })
  expect(seller.runs).toHaveLength(1)
})

test('hazard 7.13: the text of a refusal says what became of the payment, because some clients read nothing else', async () => {
  seller = await new TestSeller({ settleFirst: true }).start()
  seller.work = async () => {
    throw new Error('fails each time')
  }
  const call = paidTool(seller.deps)
  for (let run = 0; run < 5; run++) {
    expect(await call('work')).toMatchObject({
      content: [{ text: expect.stringMatching(/^AGENT_FAILED: .*payment is settled: send the same request/) }],
      _meta: { 'stoa/error': { settlement: 'settled' } },
    })
  }
  expect(await call('work')).toMatchObject({
    content: [{ text: expect.stringMatching(/^BUSY: .*payment is settled: send the same request/) }],
  })
})

test('hazard 7.13: a run that failed before its payment settled says that nothing is charged', async () => {
  seller = await new TestSeller().start()
  seller.work = async () => {
    throw new Error('fails each time')
  }
  expect(await paidTool(seller.deps)('work')).toMatchObject({
    content: [{ text: expect.stringMatching(/^AGENT_FAILED: .*nothing is charged/) }],
    _meta: { 'stoa/error': { settlement: 'none' } },
  })
})

test('T36 the limits of an address hear of a payment that is refused, and of no other', async () => {
  const check = notedCheck()
  seller = await new TestSeller({ blocked: [signed(0).envelope.payer] }).start()
  expect(await paidTool(seller.deps)('work', check)).toMatchObject({ isError: true })
  expect(check.heard).toEqual(['refused'])
  await seller.stop()
  seller = await new TestSeller().start()
  const call = paidTool(seller.deps)
  expect(await call('work', check)).toMatchObject({ content: [{ text: 're: work' }] })
  expect(await call('other', check)).toMatchObject({ isError: true })
  expect(check.heard).toEqual(['refused', 'paid'])
})
