/** Two processes of one seller on one ledger in PostgreSQL: one identity, two market hosts, one listing. */
import { expect, test } from 'vitest'
import type { NodeStatus } from '../../src/schema/api.ts'
import { useBuyerMarket } from '../support/buyer-market.ts'
import { discover } from '../support/loopback-node.ts'
import type { NodeProcess } from '../support/node-process.ts'
import { openSellerProcesses } from '../support/seller-processes.ts'
import { until } from '../support/until.ts'

const WAIT = { timeoutMs: 60_000, everyMs: 50 }
const market = useBuyerMarket()

/** The agent says which process ran it. */
const openShop = () =>
  openSellerProcesses(
    (name) => [
      {
        ...{ name: 'who', description: 'says who it is', price: 0.01 },
        command: ['/bin/sh', '-c', `cat; printf " by ${name}"`],
      },
    ],
    market,
  )

const statusOf = async ({ ready }: NodeProcess) => (await (await fetch(`${ready.api_url}/status`)).json()) as NodeStatus
const listed = (seller: string) => market.buyer.listings().find((one) => one.seller_id === seller)?.addrs ?? []
const lists = (seller: string, addresses: readonly string[]) =>
  until(() => listed(seller).toSorted().join() === addresses.toSorted().join(), WAIT)

async function kill({ child, exited }: NodeProcess): Promise<void> {
  child.kill('SIGKILL')
  await exited
}

async function buy(agentId: string, input: string): Promise<string> {
  return (await market.buyer.execute({ agentId, input, signal: AbortSignal.timeout(60_000) })).output
}

test('a buyer finds one listing with the addresses of both processes, and goes on to the other when one is killed', async () => {
  const shop = await openShop()
  const running = { a: await shop.start('a'), b: await shop.start('b') }
  const both = () => [...running.a.ready.addresses, ...running.b.ready.addresses]
  const { id } = await discover(market.buyer, shop.seller, 'who', WAIT)
  await lists(shop.seller, both())
  expect(market.buyer.listings().filter((one) => one.seller_id === shop.seller)).toHaveLength(1)

  const [a, b] = await Promise.all([statusOf(running.a), statusOf(running.b)])
  expect([a.peer_id, b.peer_id]).toEqual([shop.seller, shop.seller])
  expect(new Set([a.market?.peer_id, b.market?.peer_id, shop.seller]).size).toBe(3)
  expect([a.trading?.state, b.trading?.state]).toEqual(['open', 'open'])

  // The one that served is killed, with a connection and a kept stream of the buyer.
  const first = /^one by ([ab])$/.exec(await buy(id, 'one'))![1] as 'a' | 'b'
  const second = first === 'a' ? 'b' : 'a'
  await kill(running[first])
  expect(await buy(id, 'two')).toBe(`two by ${second}`)
  running[first] = await shop.start(first)
  await until(() => listed(shop.seller).some((address) => running[first].ready.addresses.includes(address)), WAIT)
  await kill(running[second])
  expect(await buy(id, 'three')).toBe(`three by ${first}`)
  // The dead ones leave the listing.
  await lists(shop.seller, running[first].ready.addresses)
  expect((await statusOf(running[first])).trading?.state).toBe('open')
})

test('a process that stops leaves the market to the other, and the last one takes the agents with it', async () => {
  const shop = await openShop()
  const [a, b] = [await shop.start('a'), await shop.start('b')]
  const { id } = await discover(market.buyer, shop.seller, 'who', WAIT)
  await lists(shop.seller, [...a.ready.addresses, ...b.ready.addresses])
  await a.stop()
  await lists(shop.seller, b.ready.addresses)
  expect(await buy(id, 'still')).toBe('still by b')
  await b.stop()
  await until(() => listed(shop.seller).length === 0, WAIT)
})
