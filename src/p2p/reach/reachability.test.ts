import { multiaddr } from '@multiformats/multiaddr'
import { expect, test } from 'vitest'
import { reachabilityOf } from './reachability.ts'

const relay = '12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5'
const own = '12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN'
const local = `/ip4/192.168.1.7/tcp/4001/p2p/${own}`
const open = `/ip4/9.9.9.9/tcp/4001/p2p/${own}`
const relayed = `/ip4/8.8.8.8/tcp/4001/p2p/${relay}/p2p-circuit/p2p/${own}`

type Texts = Record<'addresses' | 'announced' | 'connectedTo', string[]>
type Facts = Partial<Omit<Parameters<typeof reachabilityOf>[0], keyof Texts> & Texts>

function judge({ addresses = [local], announced = [], connectedTo = [], ...rest }: Facts) {
  const parsed = (texts: readonly string[]) => texts.map((text) => multiaddr(text))
  return reachabilityOf({
    relays: [],
    relaysOffered: 0,
    port: 4001,
    uptimeMs: 60_000,
    ...rest,
    addresses: parsed(addresses),
    announced: parsed(announced),
    connectedTo: parsed(connectedTo),
  })
}

test('an address that a peer has dialed is public, one the operator announced is as well, and it says which', () => {
  expect(judge({ addresses: [local, open] })).toMatchObject({ state: 'public', addresses: [open] })
  expect(judge({ addresses: [open] }).reason).toContain('peers have dialed')
  expect(judge({ addresses: [open], announced: ['/ip4/9.9.9.9/tcp/4001'] }).reason).toContain('operator')
})

test('T20: a relayed node says through whom, and how to do without', () => {
  const result = judge({ addresses: [local, relayed], relays: [relay], connectedTo: ['/ip4/8.8.8.8/tcp/4001'] })
  expect(result).toMatchObject({ state: 'relayed', relays: [relay], addresses: [relayed] })
  expect(result.fix).toContain('TCP port 4001')
})

test('T20: an unreachable node says why and what to do, once it had time to find out', () => {
  const connectedTo = ['/ip4/8.8.8.8/tcp/4001']
  expect(judge({ connectedTo, uptimeMs: 1000 }).state).toBe('unknown')
  const alone = judge({ connectedTo })
  expect(alone).toMatchObject({ state: 'unreachable', reason: expect.stringContaining('no connected peer is a relay') })
  expect(alone.fix).toMatch(/NODE_ANNOUNCE_ADDR.*--upnp.*--relay-via/)
  expect(judge({ connectedTo, relaysOffered: 1 }).reason).toContain('has a place')
})

test('T20: what came of asking the router is said where it matters, and not advised again', () => {
  const connectedTo = ['/ip4/8.8.8.8/tcp/4001']
  const failed = { state: 'failed' as const, says: 'no router offers it' }
  const alone = judge({ connectedTo, forwarding: failed })
  expect(alone).toMatchObject({ state: 'unreachable', reason: expect.stringContaining('; no router offers it') })
  expect(alone.fix).not.toContain('--upnp')
  expect(judge({ addresses: [open], forwarding: failed }).reason).not.toContain('no router')
  const mapped = { state: 'mapped' as const, says: 'the router passes TCP 4001 on' }
  expect(judge({ connectedTo, forwarding: mapped }).fix).toContain('firewall of this machine')
  expect(judge({ addresses: [open], forwarding: mapped }).reason).toContain('the router passes TCP 4001 on')
})

test('with no peer, or with peers of the local network only, nothing can be known', () => {
  expect(judge({})).toMatchObject({ state: 'unknown', fix: expect.stringContaining('--bootstrap') })
  expect(judge({ connectedTo: ['/ip4/192.168.1.9/tcp/4001'] }).state).toBe('unknown')
})
