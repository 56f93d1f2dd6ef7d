import { peerIdFromString } from '@libp2p/peer-id'
import { multiaddr } from '@multiformats/multiaddr'
import { expect, test } from 'vitest'
import type { Node } from '../modules.ts'
import { Visitors } from './visitors.ts'

const remotePeer = peerIdFromString('12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5')
const HOUR_MS = 60 * 60 * 1000

function setup({ connections = 1, isTrusted = false } = {}) {
  let now = 0
  const libp2p = Object.assign(new EventTarget(), {
    getConnections: () => Array.from({ length: connections }, (_, at) => ({ id: `${at}` })),
  })
  const visitors = new Visitors({ libp2p: libp2p as unknown as Node, isTrusted: () => isTrusted, now: () => now })
  const visit = (host: string, more: object = {}) => {
    const detail = {
      id: '0',
      direction: 'inbound',
      remotePeer,
      remoteAddr: multiaddr(`/ip4/${host}/tcp/4001`),
      ...more,
    }
    libp2p.dispatchEvent(new CustomEvent('connection:open', { detail }))
  }
  const pass = (ms: number) => {
    now += ms
  }
  return { visitors, visit, pass }
}

test('D52: strangers have come when two of different networks came in, and no longer when nobody did for two hours', () => {
  const { visitors, visit, pass } = setup()
  visit('9.9.9.9')
  visit('9.9.8.8')
  expect(visitors.come()).toBe(false)
  visit('8.8.8.8')
  expect(visitors.come()).toBe(true)
  pass(2 * HOUR_MS + 1)
  expect(visitors.come()).toBe(false)
})

test('D52: who came over a relay, from the local network, or was dialed, is no visitor', () => {
  const { visitors, visit } = setup()
  visit('9.9.9.9', { limits: {} })
  visit('8.8.8.8', { direction: 'outbound' })
  visit('192.168.1.2')
  visit('127.0.0.1')
  expect(visitors.come()).toBe(false)
})

test('D52: who is connected already, or was named by the operator, is no stranger', () => {
  for (const known of [setup({ connections: 2 }), setup({ isTrusted: true })]) {
    known.visit('9.9.9.9')
    known.visit('8.8.8.8')
    expect(known.visitors.come()).toBe(false)
  }
})
