import { readdirSync, readFileSync } from 'node:fs'
import os from 'node:os'
import type { Stream } from '@libp2p/interface'
import { defaultLogger } from '@libp2p/logger'
import { noise } from '@libp2p/noise'
import { peerIdFromString } from '@libp2p/peer-id'
import { AbstractMessageStream, getThinWaistAddresses, multiaddrConnectionPair } from '@libp2p/utils'
import { yamux } from '@libp2p/yamux'
import { multiaddr } from '@multiformats/multiaddr'
import { MemoryDatastore } from 'datastore-core/memory'
import type { Key } from 'interface-datastore'
import { createLibp2p } from 'libp2p'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { endOfRead, securedPair } from '../../../test/support/secured-pair.ts'

const peer = peerIdFromString('12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5')

afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})

test('each workaround names its upstream and when it goes', () => {
  const files = readdirSync(import.meta.dirname).filter((name) => !name.endsWith('.test.ts'))
  for (const file of files) {
    const text = readFileSync(`${import.meta.dirname}/${file}`, 'utf8')
    expect(text, file).toMatch(/^\/\*\n \* Upstream: (not reported|https:).+?Seen in.+? \* Goes when: /s)
  }
})

/** A test here that fails brings good news: the library was mended, and the file that it names can go. */
describe('the workaround is still needed', () => {
  class Probe extends AbstractMessageStream {
    constructor() {
      super({ log: defaultLogger().forComponent('probe') })
    }
    sendData() {
      return { sentBytes: 0, canSendMore: false }
    }
    sendReset() {}
    sendPause() {}
    sendResume() {}
    async close() {}
  }

  test('half-closed.ts: a half-closed stream takes no bytes back', () => {
    const stream = new Probe()
    stream.readStatus = 'closed'
    expect(() => stream.unshift(new Uint8Array(1))).toThrow('closed')
  })

  test('drained.ts: a second wait for a drain does not wait', async () => {
    const stream = new Probe()
    stream.writableNeedsDrain = true
    const first = stream.onDrain()
    stream.dispatchEvent(new Event('drain'))
    await first
    stream.writableNeedsDrain = true
    const waits = new Promise((resolve) => setTimeout(() => resolve('waits'), 50))
    expect(await Promise.race([stream.onDrain(), waits])).toBeUndefined()
  })

  test('steady-interfaces.ts: an error of the system is thrown', () => {
    vi.spyOn(os, 'networkInterfaces').mockImplementation(() => {
      throw new Error('EMFILE')
    })
    expect(() => getThinWaistAddresses(multiaddr('/ip4/0.0.0.0/tcp/4001'), 4001)).toThrow('EMFILE')
  })

  test('known-protocols.ts: what is known is written again', async () => {
    const datastore = new MemoryDatastore()
    const put = vi.spyOn(datastore as { put(key: Key, value: Uint8Array): unknown }, 'put')
    const { peerStore } = await createLibp2p({ start: false, datastore })
    await peerStore.merge(peer, { protocols: ['/x/1'] })
    const before = put.mock.calls.length
    await peerStore.merge(peer, { protocols: ['/x/1'] })
    expect(put.mock.calls.length).toBeGreaterThan(before)
  })

  test('address-age.ts: an address that is confirmed keeps its first date', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 0 })
    const { peerStore } = await createLibp2p({ start: false, peerStore: { maxAddressAge: 1000 } })
    const multiaddrs = [multiaddr('/ip4/9.9.9.9/tcp/4001')]
    await peerStore.merge(peer, { multiaddrs })
    vi.setSystemTime(900)
    await peerStore.merge(peer, { multiaddrs })
    vi.setSystemTime(1500)
    expect((await peerStore.get(peer)).addresses).toEqual([])
  })

  test('short-reads.ts: the end of what was read is a new error', async () => {
    const { to } = await securedPair(noise())
    expect(endOfRead(to)).toBeInstanceOf(RangeError)
    expect(endOfRead(to)).not.toBe(endOfRead(to))
  })

  test('batched-writes.ts: the muxer sends each frame of a turn alone', async () => {
    const [here] = multiaddrConnectionPair()
    const send = vi.spyOn(here, 'send')
    const muxer = yamux()().createStreamMuxer(here)
    const stream: Stream = await muxer.createStream()
    await new Promise((resolve) => setTimeout(resolve, 10))
    const before = send.mock.calls.length
    stream.send(new Uint8Array(10))
    stream.send(new Uint8Array(10))
    await new Promise((resolve) => setTimeout(resolve, 10))
    expect(send.mock.calls.length - before).toBeGreaterThanOrEqual(2)
    muxer.abort(new Error('done'))
  })
})
