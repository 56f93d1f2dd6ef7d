/** T7, T19: a flood of frames leaves a node no larger than it was. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { noise } from '@libp2p/noise'
import { tcp } from '@libp2p/tcp'
import { yamux } from '@libp2p/yamux'
import { multiaddr } from '@multiformats/multiaddr'
import { createLibp2p, type Libp2p } from 'libp2p'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { encodeTextFrame } from '../../src/protocols/frame.ts'
import { X402_PROTOCOL } from '../../src/schema/x402.ts'
import { type NodeProcess, startNodeProcess } from '../support/node-process.ts'
import { until } from '../support/until.ts'

const CLIENTS = 4
const FRAMES = 120_000
const FRAMES_AT_ONCE = 40
const STREAMS = 20

let dataDir: string
let node: NodeProcess
const clients: Libp2p[] = []

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'stoa-flood-'))
  node = await startNodeProcess({ args: ['--data-dir', dataDir], environment: {} })
})
afterAll(async () => {
  await Promise.all(clients.map((client) => client.stop()))
  await node?.stop()
  await rm(dataDir, { recursive: true, force: true })
})

/** Resident memory of the node, in MiB. */
function memory(): number {
  const status = readFileSync(`/proc/${node.child.pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+)/.exec(status)![1]) / 1024
}

async function flood(): Promise<void> {
  const client = await createLibp2p({
    transports: [tcp()],
    connectionEncrypters: [noise()],
    streamMuxers: [yamux()],
  })
  clients.push(client)
  const connection = await client.dial(multiaddr(node.ready.addresses.find((address) => address.includes('/tcp/'))!))
  const message = { version: '1.0', correlation_id: randomUUID(), resource: 'nobody', method: 'execute', payment: null }
  const request = encodeTextFrame(
    'x402.request',
    JSON.stringify({ ...message, body: 'eA'.repeat(700), caller_did: 'x' }),
  )
  const frames = Buffer.concat(Array.from({ length: FRAMES_AT_ONCE }, () => request))
  for (let sent = 0; sent < FRAMES / CLIENTS && connection.status === 'open'; ) {
    const streams = await Promise.all(
      Array.from({ length: STREAMS }, () =>
        connection.newStream(X402_PROTOCOL, { maxOutboundStreams: 256, signal: AbortSignal.timeout(30_000) }),
      ),
    )
    await Promise.all(
      streams.map(async (stream) => {
        stream.addEventListener('message', () => {})
        for (let burst = 0; burst < 10 && stream.status === 'open'; burst++) {
          sent += FRAMES_AT_ONCE
          const ended = new AbortController()
          const { signal } = ended
          if (!stream.send(frames)) await Promise.race(['drain', 'close'].map((name) => once(stream, name, { signal })))
          ended.abort()
        }
        stream.abort(new Error('enough'))
      }),
    ).catch(() => {})
  }
}

test.skipIf(process.platform !== 'linux')(
  'what a flood of frames took is given back once the node has nothing to do',
  async () => {
    const before = memory()
    await Promise.all(Array.from({ length: CLIENTS }, () => flood().catch(() => {})))
    await Promise.all(clients.splice(0).map((client) => client.stop()))
    await until(() => memory() < 1.5 * before, { timeoutMs: 90_000, everyMs: 500 })
    expect(memory()).toBeLessThan(1.5 * before)
  },
)
