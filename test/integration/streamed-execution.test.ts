/** Work that is shown while it is done: from the agent's program, over libp2p, to a client of the buyer's API. */
import { randomUUID } from 'node:crypto'
import { existsSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { createApiClient } from '../../src/http/client/client.ts'
import type { ExecutionProgress } from '../../src/schema/execution.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

let devnet: Devnet
let dir: string
let seller: TestNode
let buyer: TestNode
const key = generatePrivateKey()

/** Says a line, and the next one when the file it was given as its task is there. */
const twoLines = `
  const { existsSync, readFileSync } = require('node:fs')
  const file = readFileSync(0, 'utf8')
  process.stdout.write('first line\\n')
  setInterval(() => {
    if (!existsSync(file)) return
    process.stdout.write('second line\\n')
    process.exit(0)
  }, 20)`
const command = [process.execPath, '-e', twoLines]

beforeAll(async () => {
  devnet = await startDevnet()
  dir = await mkdtemp(join(tmpdir(), 'stoa-stream-'))
  seller = await startTestNode({ devnet })
  await seller.node.registerAgent(
    { name: 'lines', description: 'says lines', price: 10_000n, command },
    { persist: false },
  )
  await seller.node.registerAgent(
    { name: 'free lines', description: 'says lines', price: 0n, command },
    { persist: false },
  )
  await devnet.fund(privateKeyToAccount(key).address, 1_000_000n)
  const bootstrap = [seller.node.addresses().find((address) => address.includes('/tcp/'))!]
  buyer = await startTestNode({ devnet, walletKey: key, bootstrap })
  await until(() => buyer.node.listings().length === 2)
})
afterAll(async () => {
  await buyer?.stop()
  await seller?.stop()
  await devnet?.stop()
  await rm(dir, { recursive: true, force: true })
})

const idOf = (name: string) => buyer.node.listings().find((listing) => listing.name === name)!.id

test.each(['lines', 'free lines'])('the first of the %s is seen before the agent says the second', async (name) => {
  const file = join(dir, `go on ${name} ${randomUUID()}`)
  const seen: ExecutionProgress[] = []
  const client = createApiClient({ baseUrl: buyer.url }, { fetch })
  const result = await client.executeStreamed({
    agentId: idOf(name),
    input: file,
    signal: AbortSignal.timeout(60_000),
    onProgress(progress) {
      seen.push(progress)
      if (progress.type === 'output' && !existsSync(file)) writeFileSync(file, '')
    },
  })
  expect(result.output).toBe('first line\nsecond line')
  expect(seen.map(({ type, data }) => (type === 'status' ? data.status : data.text)).slice(0, 3)).toEqual(
    name === 'lines' ? ['ordered', 'paying', 'running'] : ['ordered', 'running', 'first line\n'],
  )
  expect(seen.find(({ type }) => type === 'output')).toMatchObject({ data: { text: 'first line\n' } })
  expect(result.payment?.amount).toBe(name === 'lines' ? '0.01' : undefined)
  expect(seen[0]).toMatchObject({ data: { order_id: result.order_id, correlation_id: result.correlation_id } })
})

test('an own agent shows its work as well; what cannot begin is answered as ever', async () => {
  const client = createApiClient({ baseUrl: seller.url }, { fetch })
  const file = join(dir, `go on own ${randomUUID()}`)
  let shown = ''
  const onProgress = (progress: ExecutionProgress) => {
    if (progress.type === 'output') shown += progress.data.text
    if (progress.type === 'output') writeFileSync(file, '')
  }
  await client.executeStreamed({ agentId: idOf('lines'), input: file, onProgress })
  expect(shown).toBe('first line\nsecond line\n')
  const unknown = client.executeStreamed({ agentId: 'x', input: file, onProgress })
  await expect(unknown).rejects.toThrow(expect.objectContaining({ code: 'UNKNOWN_AGENT', status: 404 }))
  const answer = await fetch(`${seller.url}/agents/${idOf('lines')}/execute`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'text/event-stream' },
    body: JSON.stringify({ task: file }),
  })
  expect(await answer.text()).toMatch(/^event: status\n.*\n\n(event: .*\n.*\n\n)*event: result\ndata: .*\n\n$/)
})

test('a client that leaves calls the run off', async () => {
  const client = createApiClient({ baseUrl: seller.url }, { fetch })
  const leave = new AbortController()
  const onProgress = (progress: ExecutionProgress) => void (progress.type === 'output' && leave.abort())
  const left = client.executeStreamed({
    agentId: idOf('lines'),
    input: join(dir, 'never'),
    signal: leave.signal,
    onProgress,
  })
  await expect(left).rejects.toThrow()
  await until(async () => (await seller.node.orders.list({ limit: 1 })).items[0]?.status === 'failed')
})

test('T6 a buyer that leaves after the first words of paid work still gets all of it, and pays', async () => {
  const client = createApiClient({ baseUrl: buyer.url }, { fetch })
  const leave = new AbortController()
  const file = join(dir, `go on without me ${randomUUID()}`)
  const seen: ExecutionProgress[] = []
  const onProgress = (progress: ExecutionProgress) => {
    seen.push(progress)
    if (progress.type === 'output') leave.abort()
  }
  const left = client.executeStreamed({ agentId: idOf('lines'), input: file, signal: leave.signal, onProgress })
  await expect(left).rejects.toThrow()
  const { order_id } = seen[0]!.data as { order_id: string }
  // The seller has heard of it by the time the node has let go of the order.
  await until(async () => (await buyer.node.orders.get(order_id)).status === 'executing')
  writeFileSync(file, '')
  await buyer.node.orders.cancel(order_id).catch(() => {})
  await until(async () => (await buyer.node.orders.get(order_id)).status === 'completed')
  const { output, payment } = await buyer.node.orders.get(order_id)
  expect(output).toBe('first line\nsecond line')
  expect(payment?.settlement).toMatch(/settled|pending|claimed/)
})
