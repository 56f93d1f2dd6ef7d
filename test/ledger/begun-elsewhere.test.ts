/** D18 D53 T41: two processes take up one order at a URL, such as when its approval was given at the other one. */
import { expect, onTestFinished, test } from 'vitest'
import type { Buyer } from '../../src/buying/buyer.ts'
import { createPurchases } from '../../src/store/purchases.ts'
import { createFakeMarket } from '../support/fake-market.ts'
import { onBothEngines } from '../support/ledgers.ts'
import { payTo } from '../support/payments.ts'
import { until } from '../support/until.ts'
import { askedBy, headerOf, startBareSeller } from '../support/web-seller.ts'

type Answer = { status: number; amount?: string }

onBothEngines((_open, openTwo) => {
  /** Two processes of one node. The seller answers the first process that asks, and then pays no attention to its payment. */
  async function start(answers: Answer[], rules: object = {}) {
    const gates = answers.map(() => Promise.withResolvers<void>())
    let [asked, paid] = [0, 0]
    const seller = await startBareSeller(async ({ headers }, response) => {
      if (headers['payment-signature'] !== undefined) return void paid++
      const at = asked++
      await gates[at]?.promise
      const { status, amount = '10000' } = answers[at] ?? { status: 402 }
      const demand = headerOf(askedBy(seller.origin, payTo, { amount }))
      response.writeHead(status, status === 402 ? { 'payment-required': demand } : {}).end('{}')
    })
    onTestFinished(() => seller.stop())
    const ledgers = await openTwo()
    let id = ''
    let changes = 0
    const { commit } = ledgers[1]
    ledgers[1] = {
      ...ledgers[1],
      async commit(change, ...notes) {
        const value = await commit(change, ...notes)
        if (notes.some((note) => 'id' in note && note.id === id)) changes++
        return value
      },
    }
    const privateOrigins = [seller.origin]
    const buyers = ledgers.map((database) => createFakeMarket(() => [], { database, privateOrigins, rules }))
    for (const buyer of buyers) for (const service of buyer.services) await service.start()
    onTestFinished(async () => {
      for (const buyer of buyers) for (const service of buyer.services.toReversed()) await service.stop()
    })
    const [first, second] = buyers as [Buyer, Buyer]
    ;({ id } = await first.orders.createOnWeb({ url: seller.url, task: 'work', price: 50_000n }))
    await until(() => asked === 1)
    second.orders.enqueue(id)
    await until(() => asked === 2)
    gates[0]!.resolve()
    await until(() => paid > 0)
    const order = async () => (await createPurchases(ledgers[0]).order(id))!
    /** The seller answers the second process, which decides about the order then. */
    const answerSecond = async () => {
      gates[1]!.resolve()
      await until(() => changes > 0)
    }
    return { order, second, answerSecond }
  }

  test('a refusal that the second process hears does not end the order that the first one has paid for', async () => {
    const { order, answerSecond } = await start([{ status: 402 }, { status: 500 }])
    await answerSecond()
    expect(await order()).toMatchObject({ status: 'executing', web: { terms: { version: 2 } } })
  })

  test('a higher price that the second process hears does not hold the order for an approval', async () => {
    const rules = { autoApproveBelowAtomic: 20_000n }
    const { order, second, answerSecond } = await start([{ status: 402 }, { status: 402, amount: '40000' }], rules)
    await answerSecond()
    expect(await order()).toMatchObject({ status: 'executing', web: { terms: { accepted: { amount: '10000' } } } })
    expect(await second.approvals.list('pending')).toEqual([])
  })
})
