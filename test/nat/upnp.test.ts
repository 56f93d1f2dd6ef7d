/** Behind routers that speak UPnP, or do not, in network namespaces. Needs root, nft and miniupnpd; else it says so. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../support/until.ts'
import { type Igd, igdMissing, startIgd } from './igd.ts'
import { labMissing } from './lab.ts'
import { buy, found, LabMarket } from './lab-market.ts'

const missing = (await labMissing()) ?? (await igdMissing())
if (missing !== undefined) process.stdout.write(`test/nat/upnp is skipped: ${missing}\n`)

/** Of a machine with much else to do. */
const SLOW = { timeoutMs: 60_000 }

let market: LabMarket
const igds: Igd[] = []

/** A router with its daemon, and a seller behind it that asks for its port. */
async function seller(
  name: string,
  options: Parameters<typeof startIgd>[2] & { igd?: boolean; behind?: string; firewall?: boolean } = {},
) {
  const { lab, places, home } = market
  const behind = options.behind === undefined ? undefined : places[options.behind]
  const place = await lab.behindNat(name, { ...(behind && { behind }) })
  places[name] = place
  if (options.firewall === true) await lab.protect(place)
  const igd = options.igd === false ? undefined : await startIgd(place, home, options)
  if (igd !== undefined) igds.push(igd)
  const node = await market.start(name, {
    upnp: true,
    bootstrap: [market.address('public')],
    agent: { name, price: '1000' },
  })
  return { place, node, igd: igd! }
}

const reason = async (name: string) => (await market.nodes[name]!.ask('status')).reachability.reason ?? ''

beforeAll(async () => {
  if (missing !== undefined) return
  market = await LabMarket.start()
  const { lab, places } = market
  places.public = await lab.public('public')
  places.buyer = await lab.public('buyer')
  // No relay anywhere: what is bought is bought over the port.
  await market.start('public', { announce: [`/ip4/${places.public.ip}/tcp/4001`] })
  const announce = [`/ip4/${places.buyer.ip}/tcp/4001`]
  await market.start('buyer', { announce, bootstrap: [market.address('public')], key: await market.fundedKey() })
}, 120_000)

afterAll(async () => {
  for (const igd of igds) igd.stop()
  await market?.stop()
})

describe.skipIf(missing).concurrent('--upnp', () => {
  // The second router knows only the first version of the protocol, and has given 4001 to somebody else; the machine behind
  // it has a firewall.
  test.each([
    { name: 'new', conf: [], taken: [], port: 4001, firewall: false },
    {
      name: 'old',
      conf: ['force_igd_desc_v1=yes'],
      taken: ['TCP:4001:192.168.250.9:4001'],
      port: 4002,
      firewall: true,
    },
  ])('T20: a port that the router opens is proved, listed, bought over and given back ($name)', async (given) => {
    const { name, taken, port } = given
    const { node, place, igd } = await seller(name, given)
    const open = `/ip4/${place.publicIp}/tcp/${port}/p2p/${node.peerId}`
    const buyer = market.nodes.buyer!
    const { addrs } = await found(buyer, node, (listing) => listing.addrs.includes(open))
    // 4001 leads to somebody else where it was taken.
    expect(addrs.filter((address) => address.startsWith(`/ip4/${place.publicIp}/tcp/`))).toEqual([open])
    const own = [`tcp ${port} ${place.ip}:4001`, `udp 4001 ${place.ip}:4001`]
    const others = taken.map(() => 'tcp 4001 192.168.250.9:4001')
    expect((await igd.mappings()).toSorted()).toEqual([...own, ...others].toSorted())

    const leftS = (await igd.leases()).filter((end) => end > 0).map((end) => end - Date.now() / 1000)
    expect(leftS).toHaveLength(2)
    for (const left of leftS) expect(left).toSatisfy((seconds: number) => seconds > 3500 && seconds <= 3601)

    expect(await buy(buyer, node)).toMatchObject({ output: 'hello', payment: { amount: '0.001' } })
    const dialed = (await buyer.ask('peers')).find(({ peer_id }) => peer_id === node.peerId)
    expect(dialed?.addresses).toContainEqual(expect.stringContaining(`/ip4/${place.publicIp}/`))
    const { reachability } = await node.ask('status')
    expect(reachability).toMatchObject({ state: 'public', relays: [], addresses: expect.arrayContaining([open]) })
    expect(reachability.reason).toContain(`the router passes TCP ${port} and UDP 4001 of ${place.publicIp} on`)

    // QUIC comes through as well.
    if (name === 'new') {
      const quic = `/ip4/${place.publicIp}/udp/4001/quic-v1`
      market.places.over = await market.lab.public('over')
      const over = await market.start('over', { bootstrap: [`${quic}/p2p/${node.peerId}`] })
      const isOver = ({ addresses }: { addresses: string[] }) => addresses.some((address) => address.startsWith(quic))
      await until(async () => (await over.ask('peers')).some(isOver), SLOW)
    }

    await node.stop()
    expect(await igd.mappings()).toEqual(others)
  })

  test('T20: a router that refuses, and one that is none, are told of once; the node runs', async () => {
    await Promise.all([
      seller('refused', { conf: ['deny 0-65535 0.0.0.0/0 0-65535'] }),
      seller('alone', { igd: false }),
    ])
    await until(async () => (await reason('refused')).includes('the router refuses (UPnP error '), SLOW)
    await until(async () => (await reason('alone')).includes('no router on this network offers it'), SLOW)
    for (const name of ['refused', 'alone']) {
      const node = market.nodes[name]!
      await found(market.nodes.buyer!, node)
      expect(node.log().match(/warn UPnP does not work here/g)).toHaveLength(1)
    }
  })

  test('T20: a router behind another router has no public address to say; nothing false is announced', async () => {
    market.places.outer = await market.lab.behindNat('outer')
    const { node } = await seller('inner', { behind: 'outer' })
    await until(async () => (await reason('inner')).includes('or another router stands before it'), SLOW)
    const { addrs } = await found(market.nodes.buyer!, node)
    expect(addrs.filter((address) => address.includes('/10.0.'))).toEqual([])
  })
})
