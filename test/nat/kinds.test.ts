/** What works behind which kind of router, as docs/operations.md has it. Needs root and nft; else it says so. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../support/until.ts'
import { labMissing, type NatOptions } from './lab.ts'
import { buy, found, isRelayed, LabMarket } from './lab-market.ts'
import type { LabNode } from './lab-node.ts'

const missing = await labMissing()
if (missing !== undefined) process.stdout.write(`test/nat/kinds is skipped: ${missing}\n`)

/** A router that passes the port on; one that sends from the port it is sent from; one that draws each port by lot. */
const KINDS: Record<'forwarding' | 'keeping' | 'symmetric', NatOptions> = {
  forwarding: { forwards: [4001] },
  keeping: {},
  symmetric: { symmetric: true },
}

let market: LabMarket

beforeAll(async () => {
  if (missing !== undefined) return
  market = await LabMarket.start()
  const { lab, places } = market
  places.relay = await lab.public('relay')
  places['buyer-public'] = await lab.public('bp')
  places['buyer-keeping'] = await lab.behindNat('bk', KINDS.keeping)
  places['buyer-symmetric'] = await lab.behindNat('bs', KINDS.symmetric)
  for (const [kind, options] of Object.entries(KINDS)) places[kind] = await lab.behindNat(kind.slice(0, 3), options)
  await market.start('relay', { relay: true, announce: [`/ip4/${places.relay.ip}/tcp/4001`] })
  const bootstrap = [market.address('relay')]
  const price = '1000'
  await Promise.all([
    ...Object.keys(KINDS).map((kind) => market.start(kind, { bootstrap, agent: { name: kind, price } })),
    ...['public', 'keeping', 'symmetric'].map(async (kind) => {
      await market.start(`buyer-${kind}`, { bootstrap, key: await market.fundedKey() })
    }),
  ])
}, 120_000)

afterAll(async () => await market?.stop())

describe.skipIf(missing).concurrent('T20: a sale always comes about, and in the end', () => {
  test.each([
    ['forwarding', 'public', 'direct'],
    ['forwarding', 'keeping', 'direct'],
    ['forwarding', 'symmetric', 'direct'],
    ['keeping', 'public', 'direct'],
    ['keeping', 'keeping', 'direct'],
    ['keeping', 'symmetric', 'relay'],
    ['symmetric', 'public', 'direct'],
    ['symmetric', 'keeping', 'relay'],
    ['symmetric', 'symmetric', 'relay'],
  ])('from a seller behind a %s router, a %s buyer has it %s', async (kind, from, way) => {
    const [seller, buyer] = [market.nodes[kind]!, market.nodes[`buyer-${from}`]!]
    const ip = market.places[kind]!.publicIp
    const isOpen = ({ addrs }: { addrs: string[] }) => addrs.some((address) => address.startsWith(`/ip4/${ip}/tcp/`))
    await found(buyer, seller, kind === 'forwarding' ? isOpen : isRelayed)
    const sold = { output: 'hello', payment: { amount: '0.001' } }
    expect(await buy(buyer, seller)).toMatchObject(sold)
    if (way === 'direct')
      await until(async () => (await waysTo(seller, buyer)).includes('direct'), { timeoutMs: 50_000 })
    else await until(() => gaveUp(seller, buyer) || gaveUp(buyer, seller), { timeoutMs: 50_000 })
    expect(await buy(buyer, seller)).toMatchObject(sold)
    expect((await waysTo(seller, buyer)).includes('direct')).toBe(way === 'direct')
    const state = kind === 'forwarding' ? 'public' : 'relayed'
    expect((await seller.ask('status')).reachability.state).toBe(state)
  })
})

async function waysTo(seller: LabNode, buyer: LabNode): Promise<string[]> {
  const peer = (await buyer.ask('peers')).find(({ peer_id }) => peer_id === seller.peerId)
  return (peer?.addresses ?? []).map((address) => (address.includes('/p2p-circuit') ? 'relay' : 'direct'))
}

/** Whether the node has tried for a direct connection to the other, and let it be. */
function gaveUp(node: LabNode, other: LabNode): boolean {
  return new RegExp(`the relay stays .*${other.peerId}`).test(node.log())
}
