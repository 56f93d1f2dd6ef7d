/** A market across NATs, in network namespaces: found, bought from, relay lost and back. Needs root and nft; else it says so. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { PeerStatus } from '../../src/schema/api.ts'
import { until } from '../support/until.ts'
import { type Lab, labMissing, type Place } from './lab.ts'
import { buy, found, isRelayed, LabMarket } from './lab-market.ts'
import type { LabNode, LabNodeOptions } from './lab-node.ts'

const missing = await labMissing()
if (missing !== undefined) process.stdout.write(`test/nat is skipped: ${missing}\n`)

let market: LabMarket
let lab: Lab
let places: Record<string, Place>
let nodes: Record<string, LabNode>

const start = (name: string, options: Partial<LabNodeOptions> = {}) => market.start(name, options)
const relayAddress = () => market.address('relay')
const startRelay = () => start('relay', { relay: true, announce: [`/ip4/${places.relay!.ip}/tcp/4001`] })

beforeAll(async () => {
  if (missing !== undefined) return
  market = await LabMarket.start()
  ;({ lab, places, nodes } = market)
  places.relay = await lab.public('relay')
  places.one = await lab.behindNat('one')
  places.two = await lab.behindNat('two')
  places.buyer = await lab.behindNat('buyer')
  await startRelay()
  const bootstrap = [relayAddress()]
  const key = await market.fundedKey()
  await Promise.all([
    start('one', { bootstrap, agent: { name: 'one', price: '1000' } }),
    start('two', { bootstrap, agent: { name: 'two', price: '1000' } }),
    start('buyer', { bootstrap, key }),
  ])
}, 120_000)

afterAll(async () => await market?.stop())

describe.skipIf(missing).concurrent('across NATs', () => {
  test('sellers are found, bought from over the relay, and then over a hole that is punched', async () => {
    const { buyer, one, two } = nodes as Record<string, LabNode>
    for (const [name, seller] of Object.entries({ one: one!, two: two! })) {
      await found(buyer!, seller, isRelayed)
      const { output, payment } = await buy(buyer!, seller)
      expect(output).toBe('hello')
      expect(payment).toMatchObject({ amount: '0.001' })
      const relays = [nodes.relay!.peerId]
      expect((await seller.ask('status')).reachability).toMatchObject({ state: 'relayed', relays })

      const direct = `/ip4/${places[name]!.publicIp}/tcp/`
      const isDirect = ({ peer_id, addresses }: PeerStatus) =>
        peer_id === seller.peerId && addresses.some((address) => address.startsWith(direct))
      await until(async () => (await buyer!.ask('peers')).some(isDirect))
      expect(await buy(buyer!, seller)).toMatchObject({ output: 'hello' })
    }
  })

  test('a node with NODE_ANNOUNCE_ADDR is dialed there, and has no relay', async () => {
    places.told = await lab.behindNat('told', { forwards: [4001] })
    const announce = [`/ip4/${places.told.publicIp}/tcp/4001`]
    const told = await start('told', { announce, bootstrap: [relayAddress()], agent: { name: 'told', price: '0' } })
    const listing = await found(nodes.buyer!, told)
    expect(listing.addrs[0]).toBe(`${announce[0]}/p2p/${told.peerId}`)
    expect(await buy(nodes.buyer!, told)).toMatchObject({ output: 'hello' })
    const peer = (await nodes.buyer!.ask('peers')).find(({ peer_id }) => peer_id === told.peerId)
    expect(peer?.addresses).toContainEqual(expect.stringContaining(announce[0]!))
    expect((await told.ask('status')).reachability).toMatchObject({ state: 'public', relays: [] })
  })

  // One whose router passes the port on without its knowing, one on the public segment itself.
  test.each(['lucky', 'open'])('%s: an address nobody announced is proved by a peer, and listed', async (name) => {
    const place = name === 'open' ? await lab.public(name) : await lab.behindNat(name, { forwards: [4001] })
    places[name] = place
    const node = await start(name, { bootstrap: [relayAddress()], agent: { name, price: '0' } })
    const at = (ip: string) => `/ip4/${ip}/tcp/4001/p2p/${node.peerId}`
    await found(nodes.buyer!, node, ({ addrs }) => addrs[0] === at(place.publicIp))
    expect((await node.ask('status')).reachability).toMatchObject({ state: 'public' })
    expect(await buy(nodes.buyer!, node)).toMatchObject({ output: 'hello' })

    if (name !== 'open') return
    const moved = await lab.renumber(place)
    await found(nodes.buyer!, node, ({ addrs }) => addrs[0] === at(moved.publicIp))
    expect(await buy(nodes.buyer!, node)).toMatchObject({ output: 'hello' })
  })
})

test.skipIf(missing)('a relay that is killed is missed, and used again when it returns', async () => {
  const { one, two, buyer } = nodes as Record<string, LabNode>
  await nodes.relay!.kill()
  await until(async () => (await one!.ask('status')).reachability.state !== 'relayed')
  // What was punched needs no relay.
  expect(await buy(buyer!, one!)).toMatchObject({ output: 'hello' })
  await startRelay()
  for (const seller of [one!, two!]) {
    await until(async () => (await seller.ask('status')).reachability.state === 'relayed')
    await found(buyer!, seller, isRelayed)
    expect(await buy(buyer!, seller)).toMatchObject({ output: 'hello' })
  }
})
