/** ADR-38: a process that loses the machine of a paid run leaves the payment to another process of its seller. */
import { expect, test, vi } from 'vitest'
import { AgentError, NoMachine } from '../../src/agents/runtime.ts'
import { toNextStep } from '../support/next-step.ts'
import { agentId } from '../support/payments.ts'
import { TestBuyer } from '../support/test-buyer.ts'
import { until } from '../support/until.ts'
import { base64, type TestSeller, told } from '../support/x402-seller.ts'
import { runsOf, startSellers } from '../support/x402-sellers.ts'

const body = base64('task')

/** Two processes. The first loses the machine of each run. */
async function opened(failure: Error = new NoMachine()) {
  const sellers = await startSellers(2)
  const [first, second] = sellers as [TestSeller, TestSeller]
  for (const seller of sellers) seller.addAgent({ isSoldElsewhere: () => true })
  first.work = () => Promise.reject(failure)
  const peer = await first.connect()
  const { payment, paymentId, correlation_id } = await peer.challenged({ body })
  const buy = async (changes: object = { may_move: true }) =>
    told(await peer.paidRequest(payment, { correlation_id, body, ...changes }))
  const again = async (seller: TestSeller, peerId = 'buyer', changes: object = {}) => {
    const preemptive = { ...payment, server_nonce: 'preemptive' }
    const sender = await seller.connect(peerId)
    return told(await sender.request({ payment: preemptive, correlation_id, body, ...changes }))
  }
  const result = async (seller: TestSeller) => told(await (await seller.connect()).askResult(payment))
  const state = async () => (await first.payments.get(paymentId))?.state
  /** Time passes until the chain has been asked. */
  const settled = () => until(async () => (await state()) === 'settled' || toNextStep(...sellers))
  return { sellers, first, second, buy, again, result, state, settled, paymentId }
}

test('the payment is voided, the same payment buys the run at another process, and that one result is kept', async () => {
  const { sellers, first, second, buy, again, result, state, settled } = await opened()
  expect(await buy()).toBe('OVERLOADED')
  expect(await state()).toBe('voided')
  // Who asks what became of it hears that it can still be used.
  expect([await result(first), await result(second)]).toEqual(['PAYMENT_REQUIRED', 'PAYMENT_REQUIRED'])
  expect(await again(second)).toBe('re: task')
  expect([await result(first), await result(second), runsOf(sellers)]).toEqual(['re: task', 're: task', 2])
  for (const seller of sellers) expect(await again(seller)).toBe('PAYMENT_NONCE_USED')
  await settled()
  expect(new Set(first.settlement.attempts).size).toBe(1)
  expect(runsOf(sellers)).toBe(2)
})

test('T5 sent to both processes at once it is run once', async () => {
  const { sellers, first, second, buy, again } = await opened()
  await buy()
  first.work = undefined
  const answers = await Promise.all([again(first), again(second), again(second)])
  expect(answers.toSorted()).toEqual(['PAYMENT_NONCE_USED', 'PAYMENT_NONCE_USED', 're: task'])
  expect(runsOf(sellers)).toBe(2)
})

test('it moves once: a second loss is the end, and nobody is charged', async () => {
  const { first, second, buy, again, result, state } = await opened()
  await buy()
  second.work = () => Promise.reject(new NoMachine())
  expect(await again(second, 'buyer', { may_move: true })).toBe('EXECUTION_FAILED')
  expect([await again(first), await again(second), await result(first), await state()]).toEqual([
    'PAYMENT_NONCE_USED',
    'PAYMENT_NONCE_USED',
    'EXECUTION_FAILED',
    'voided',
  ])
  expect(first.settlement.attempts).toEqual([])
})

test.each<[string, object, Error]>([
  ['does not say that it goes on', {}, new NoMachine()],
  ['says so of a run that failed by itself', { may_move: true }, new AgentError('AGENT_FAILED', 'no paint')],
])('a buyer that %s gets the last word', async (_what, changes, failure) => {
  const { second, buy, again, result, state } = await opened(failure)
  expect(await buy(changes)).toBe('EXECUTION_FAILED')
  expect([await again(second), await result(second), await state()]).toEqual([
    'PAYMENT_NONCE_USED',
    'EXECUTION_FAILED',
    'voided',
  ])
})

test('without another process that sells the agent, the run has failed', async () => {
  const { first, buy } = await opened()
  first.addAgent({ isSoldElsewhere: () => false })
  expect(await buy()).toBe('EXECUTION_FAILED')
})

test.each(['before the first look', 'between two looks'])(
  'D32 who asks for the result gets that of the other process, also if it claims the payment %s',
  async (when) => {
    const { sellers, first, second, buy, again, result } = await opened()
    await buy()
    const gate = Promise.withResolvers<string>()
    second.work = () => gate.promise
    const { payments } = first.deps
    const [get, isElsewhere] = [payments.get.bind(payments), payments.isElsewhere.bind(payments)]
    let sent: Promise<unknown> | undefined
    const claimed = async () => {
      sent ??= again(second)
      await until(() => second.runs.length === 1)
    }
    vi.spyOn(payments, 'get').mockImplementationOnce(async (id) => {
      if (when === 'before the first look') await claimed()
      const left = await get(id)
      await claimed()
      return left
    })
    vi.spyOn(payments, 'isElsewhere').mockImplementation(async (id) => {
      const isRunThere = await isElsewhere(id)
      if (isRunThere) gate.resolve('painted')
      return isRunThere
    })
    const asked = await result(first)
    gate.resolve('painted')
    expect([asked, await sent, runsOf(sellers)]).toEqual(['painted', 'painted', 2])
  },
)

test('T5 another peer, and a payment for another agent, does not take what was left', async () => {
  const { second, buy, again, state } = await opened()
  await buy()
  second.addAgent({ id: 'another' })
  expect(await again(second, 'a stranger')).toBe('PAYMENT_NONCE_USED')
  expect(await again(second, 'buyer', { resource: 'another' })).toBe('PAYMENT_NONCE_USED')
  expect(await state()).toBe('voided')
  expect(await again(second, 'buyer', { resource: agentId })).toBe('re: task')
})

test('unsettled work is counted once, whether the sums were brought up to date in between or not', async () => {
  for (const isRecounted of [false, true]) {
    const { first, second, buy, again, paymentId, settled } = await opened()
    await buy()
    if (isRecounted) while (!(await first.payments.recount()).isAll);
    const { signed } = (await second.payments.get(paymentId))!
    const exposed = () => second.payments.exposed(signed.authorization.from)
    let during: unknown
    second.work = async () => {
      during = await exposed()
      return 'done'
    }
    expect(await again(second)).toBe('done')
    expect(during).toMatchObject({ payer: 10_000n, total: 10_000n, payments: 1 })
    await settled()
    expect(await exposed()).toMatchObject({ payer: 0n, total: 0n, payments: 0 })
  }
})

test('a free call goes on to another process too, if its caller says so', async () => {
  const [first] = await startSellers(1)
  first!.addAgent({ id: 'free', amount: 0n, isSoldElsewhere: () => true })
  first!.work = () => Promise.reject(new NoMachine())
  const ask = async (changes: object) =>
    told(await (await first!.connect()).request({ resource: 'free', body, ...changes }))
  expect([await ask({ may_refer: true }), await ask({})]).toEqual(['OVERLOADED', 'EXECUTION_FAILED'])
})

/** A buyer that is connected to the first process. */
function buyerOf({ first, second }: { first: TestSeller; second: TestSeller | undefined }) {
  const asked: string[] = []
  const buyer = new TestBuyer({
    clock: first.clock,
    open: async (_peer, protocol, _signal, options) => {
      asked.push(options?.instead ? 'the other' : 'the first')
      if (options?.instead && second === undefined) throw new Error('no other address')
      return (options?.instead ? second! : first).open('buyer', protocol)
    },
  })
  return { buyer, asked }
}

test('D32 a buyer sends the payment that it has signed to the other process, and signs no second one', async () => {
  const { first, second, sellers } = await opened()
  const { buyer, asked } = buyerOf({ first, second })
  expect(await buyer.execute()).toMatchObject({ output: expect.stringMatching(/^re: /) })
  expect([asked, runsOf(sellers), await buyer.spent()]).toEqual([['the first', 'the other'], 2, 10_000n])
  const ledger = await buyer.ledger()
  expect(ledger.map(({ order }) => order.status)).toEqual(['completed'])
  expect(new Set(first.settlement.attempts).size).toBe(1)
})

test('a buyer that reaches no other process sends its payment to the first again, which has a machine by then', async () => {
  const { first, sellers } = await opened()
  let runs = 0
  first.work = async ({ input }) => {
    runs += 1
    if (runs === 1) throw new NoMachine()
    return `painted ${input}`
  }
  const { buyer, asked } = buyerOf({ first, second: undefined })
  expect(await buyer.execute()).toMatchObject({ output: expect.stringMatching(/^painted /) })
  expect([asked.slice(0, 2), runsOf(sellers), await buyer.spent()]).toEqual([['the first', 'the other'], 2, 10_000n])
})

test('a loss at both processes is the last word, and the buyer is told that nothing was charged', async () => {
  const { first, second } = await opened()
  second.work = () => Promise.reject(new NoMachine())
  const { buyer } = buyerOf({ first, second })
  await expect(buyer.execute()).rejects.toMatchObject({ code: 'EXECUTION_FAILED' })
  expect([first.settlement.attempts, (await buyer.ledger()).length]).toEqual([[], 1])
})
