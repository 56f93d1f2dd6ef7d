import { expect, test } from 'vitest'
import { ChannelScript } from '../../../test/support/channel-script.ts'
import { FakeSettlement } from '../../../test/support/fake-settlement.ts'
import { scriptedMarket } from '../../../test/support/scripted-market.ts'
import { StoreError } from '../../store/store-error.ts'
import { formOf } from '../purchase.ts'
import { recoverCall } from './recover-call.ts'

const PRICE = 1_000n
const DAYS_MS = 3 * 24 * 60 * 60 * 1000

/** A buyer with a call in flight whose answer is lost, at a seller that is gone. */
async function lostCall() {
  const seller = new ChannelScript(PRICE)
  const settlement = new FakeSettlement()
  let isUp = true
  let asking = new AbortController()
  const streams: Awaited<ReturnType<typeof seller.open>>[] = []
  const open = async () => {
    if (!isUp) {
      asking.abort(new Error('the seller is down'))
      throw new Error('the seller is down')
    }
    const stream = await seller.open()
    streams.push(stream)
    return stream
  }
  const {
    buyer,
    open: openChannel,
    line,
  } = await scriptedMarket({ open, reader: seller.reader }, { price: PRICE, chain: settlement.chain })
  settlement.blockTimeMs = buyer.clock.now()
  await openChannel()
  const { finish } = buyer.deps.purchases
  buyer.deps.purchases.finish = () => Promise.reject(new StoreError('STORE_WRITE_FAILED', 'the disk is full'))
  await buyer.execute()
  buyer.deps.purchases.finish = finish
  const call = async () => (await buyer.ledger()).find(({ reservation }) => reservation?.channel !== undefined)!
  const { order, reservation } = await call()
  expect([order.status, reservation!.state]).toEqual(['executing', 'reserved'])
  isUp = false
  for (const stream of streams) stream.abort(new Error('the seller is down'))
  return {
    ...{ buyer, settlement, line, call },
    /** Asks the seller once, as the recovery does. */
    async look() {
      asking = new AbortController()
      const { order, reservation } = await call()
      const { callerDid, streams: pool, ...deps } = buyer.deps
      const { agentId: resource, correlationId = '', task = '' } = order
      const asked = { correlationId, resource, callerDid, task, form: formOf(resource) }
      const seller = { peerId: reservation!.sellerId, addrs: [] }
      await recoverCall(
        order,
        reservation!,
        { call: asked, seller, signal: asking.signal },
        { ...deps, purchases: buyer.purchases, streams: pool, chain: settlement.chain, changed: () => {} },
      )
    },
    comeBack: () => {
      isUp = true
    },
  }
}

test('T16: a clock that runs days ahead gives up no call on a channel: its seller may still have the result', async () => {
  const { buyer, look, call, line, comeBack } = await lostCall()
  buyer.clock.jump(DAYS_MS)
  await look()
  expect(await call()).toMatchObject({ order: { status: 'executing' }, reservation: { state: 'reserved' } })
  buyer.clock.jump(-DAYS_MS)
  comeBack()
  await look()
  expect(await call()).toMatchObject({ order: { status: 'completed' }, reservation: { state: 'spent' } })
  expect((await line()).channel.stopped).toBeUndefined()
})

test.each(['no chain can be asked', 'the chain is past it too'])(
  'a call whose seller is gone for longer than it keeps results counts as spent, and its channel stops, when %s',
  async (what) => {
    const { buyer, settlement, look, call, line } = await lostCall()
    buyer.clock.advance(DAYS_MS)
    settlement.chainIsDown = what === 'no chain can be asked'
    settlement.blockTimeMs = buyer.clock.now()
    await look()
    const state = settlement.chainIsDown ? 'reserved' : 'spent'
    expect((await call()).reservation).toMatchObject({ state })
    settlement.chainIsDown = false
    await look()
    expect(await call()).toMatchObject({ order: { status: 'failed' }, reservation: { state: 'spent', amount: PRICE } })
    expect((await line()).channel.stopped).toMatch('no answer about a call')
  },
)
