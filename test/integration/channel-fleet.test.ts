/**
 * Two processes of a seller and two of a buyer, each side on one ledger in PostgreSQL, trade over channels. A process of each
 * side is killed under calls, channels move to the processes that live, and the chain and both books judge.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Listing } from '../../src/schema/listing.ts'
import { all, together } from '../../src/store/query.ts'
import { FleetLoad } from '../chaos/fleet-load.ts'
import { type FleetWorld, PRICE, startFleetWorld } from '../chaos/fleet-world.ts'
import { ask } from '../support/api-calls.ts'
import {
  channelChain,
  readBuyerChannels,
  readSellerChannels,
  troubleOfBooks,
  untilClaimed,
} from '../support/channel-trade.ts'
import { askServer } from '../support/ledger-engine.ts'
import { until } from '../support/until.ts'

const CALLS = 90
const AFFORDABLE = 60
const WAIT = { timeoutMs: 180_000, everyMs: 500 }

/** What has not come to its end. */
const OPEN_BOUGHT = `SELECT o.task, o.status, a.state FROM orders o LEFT JOIN authorizations a ON a.order_no = o.no
  WHERE o.status IN ('executing', 'pending') OR a.state = 'reserved'`
const OPEN_SOLD = "SELECT state FROM payments WHERE state NOT IN ('settled', 'voided', 'unsettled')"

async function openOf({ buyer, seller }: FleetWorld): Promise<unknown[]> {
  const bought = await askServer(buyer.database, all(OPEN_BOUGHT))
  return [...bought, ...(await askServer(seller.database, all(OPEN_SOLD)))]
}

/** A seller on a busy machine offers channels a while after its start: all that is affordable could be bought before. */
async function untilOffered({ buyer, seller }: FleetWorld): Promise<void> {
  for (const { url } of buyer.nodes) {
    await until(async () => {
      const listings = await ask<Pick<Listing, 'seller_id' | 'channel'>[]>(url, '/agents')
      return listings.some(({ seller_id, channel }) => seller_id === seller.peerId && channel !== undefined)
    }, WAIT)
  }
}

test('hazard 4.9: of processes that die under calls on channels, nothing is charged twice or lost, and the budget holds', async () => {
  const world = await startFleetWorld({
    sellers: 2,
    buyers: 2,
    budget: PRICE * BigInt(AFFORDABLE),
    tradesOnChannels: true,
  })
  try {
    const { seller, buyer, devnet } = world
    const load = await FleetLoad.open(world)
    await untilOffered(world)
    const wanted = load.want(CALLS, 12, 400_000)
    const kill = async (node: (typeof seller.nodes)[number], after: number) => {
      while (load.ended < after) await delay(20)
      await node.end('SIGKILL')
      await node.start()
    }
    await kill(seller.nodes[0]!, 25)
    await kill(buyer.nodes[0]!, 45)
    await kill(seller.nodes[1]!, 55)
    await wanted
    await until(async () => (await openOf(world)).length === 0, WAIT).catch(() => {})
    expect(await openOf(world)).toEqual([])
    expect(load.wishes.filter(({ ended }) => !ended)).toEqual([])
    for (const node of [...seller.nodes, ...buyer.nodes]) expect(node.unasked).toEqual([])
    for (const node of [...buyer.nodes, ...seller.nodes]) await node.end('SIGTERM')
    await untilClaimed(seller.database, devnet, async () => {
      await seller.nodes[0]!.start()
      await seller.nodes[0]!.end('SIGTERM')
    })

    const [sold, bought] = [await readSellerChannels(seller.database), await readBuyerChannels(buyer.database)]
    // Each process of the buyer has its own.
    expect(sold.length).toBeGreaterThanOrEqual(2)
    const { state, receiver } = channelChain(devnet)
    let [charged, free] = [0n, 0n]
    for (const channel of sold) {
      const other = bought.channels.find(({ id }) => id === channel.id)!
      expect(troubleOfBooks(channel, other)).toEqual([])
      const { balance, totalClaimed } = await state(channel.id)
      expect(totalClaimed).toBe(channel.charged)
      charged += channel.charged
      free += balance - totalClaimed
    }
    expect(charged).toBeGreaterThan(10n * PRICE)
    const delivered = bought.orders.filter(({ status }) => status === 'completed').length
    expect([bought.spent, bought.exact + charged]).toEqual([PRICE * BigInt(delivered), PRICE * BigInt(delivered)])
    expect(delivered).toBeLessThanOrEqual(AFFORDABLE)
    expect(delivered).toBeGreaterThan(AFFORDABLE / 2)
    const { totalClaimed, totalSettled } = await receiver(seller.account)
    expect((await devnet.chain.balanceOf(seller.account)) + totalClaimed - totalSettled).toBe(bought.spent)
    const unused = bought.channels.filter(({ id }) => !sold.some((one) => one.id === id))
    for (const { id } of unused) free += (await state(id)).balance
    expect(100_000_000n - (await devnet.chain.balanceOf(buyer.account)) - free).toBe(bought.spent)
    const keys = await askServer(
      buyer.database,
      together(all<{ n: number }>("SELECT count(DISTINCT task) AS n FROM orders WHERE status = 'completed'")),
    )
    expect(Number(keys[0][0]!.n)).toBe(delivered)
  } finally {
    await world.stop()
  }
}, 900_000)
