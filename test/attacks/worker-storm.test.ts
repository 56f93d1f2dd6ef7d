/** T34: what bad workers do on real connections, while the seller's other workers and calls go on. */
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { createDialHost } from '../../src/p2p/dial-host.ts'
import { createIdentity, type Identity } from '../../src/p2p/identity.ts'
import { WORK_PROTOCOL } from '../../src/schema/work.ts'
import type { InvitedWorker, WorkerRecord } from '../../src/schema/worker.ts'
import { readJoinToken } from '../../src/workers/join-token.ts'
import { ask } from '../support/api-calls.ts'
import { eachByItself } from '../support/each-by-itself.ts'
import { discover, startTestNode, stopTestNodes, type TestNode, testDir } from '../support/loopback-node.ts'
import { until } from '../support/until.ts'
import { killWorkerProcesses, startWorkerProcess } from '../support/worker-process.ts'
import { ScriptedWorker } from '../support/workshop.ts'

const PRICE = 10_000n
const key = generatePrivateKey()
const payee = privateKeyToAccount(key).address
let devnet: Devnet
let seller: TestNode
let buyer: TestNode

beforeAll(async () => {
  devnet = await startDevnet()
  const chain = { rpcUrl: devnet.rpcUrl, facilitatorUrl: devnet.facilitatorUrl }
  seller = await startTestNode({ key, apiEnabled: true, ...chain })
  const bootstrap = [seller.addresses().find((address) => address.includes('/tcp/'))!]
  buyer = await startTestNode({ key: devnet.wallets.buyer.privateKey, bootstrap, ...chain, ...eachByItself })
  await seller.ownAgents.keep({ name: 'honest', description: 'x', price: PRICE, worker: true })
  await seller.ownAgents.keep({ name: 'flapping', description: 'x', price: PRICE, worker: true })
  await seller.ownAgents.keep({ name: 'stuck', description: 'x', price: PRICE, worker: true, timeout_seconds: 1 })
  const { token } = await invite()
  const agents = [{ name: 'honest', description: 'x', price: 0, command: ['/bin/cat'] }]
  const worker = await startWorkerProcess({ dataDir: await testDir(), token, agents, runs: 4 })
  await worker.joined()
})
afterAll(async () => {
  await killWorkerProcesses()
  await stopTestNodes()
  await devnet?.stop()
})

const invite = () => ask<InvitedWorker>(seller.apiUrl!, '/workers', { body: {} })
const connected = async () =>
  (await ask<WorkerRecord[]>(seller.apiUrl!, '/workers')).filter(({ state }) => state === 'connected')
const buy = (agentId: string, input: string) =>
  buyer.execute({ agentId, input, signal: AbortSignal.timeout(60_000) }).then(
    ({ output }) => output,
    ({ code }) => code,
  )

/** A host that dials the seller like a worker does. */
async function dialer(identity: Identity) {
  const host = await createDialHost({ identity, version: 'x' })
  await host.start()
  const where = { peerId: seller.peerId, addrs: seller.addresses() }
  return {
    stop: () => host.stop(),
    async worker(): Promise<ScriptedWorker> {
      const stream = await host.openStream(where, WORK_PROTOCOL, AbortSignal.timeout(30_000))
      return new ScriptedWorker(stream, host.peerId)
    },
  }
}

test('T34 a worker that joins again and again, on old and new connections, keeps nobody else from work', async () => {
  const claim = readJoinToken((await invite()).token)
  const identity = await createIdentity()
  const { id: agentId } = await discover(buyer, seller.peerId, 'honest')
  let welcomed = 0
  let listed = 0
  const watching = setInterval(() => {
    const is = seller.listings().some(({ name }) => name === 'flapping')
    if (is !== (listed % 2 === 1)) listed += 1
  }, 1)
  onTestFinished(() => clearInterval(watching))
  const join = async (worker: ScriptedWorker) => {
    const answer = await worker.join(claim, ['flapping']).catch(() => undefined)
    if (answer?.type === 'work.welcome') welcomed += 1
    worker.stream.abort(new Error('gone again'))
  }
  const host = await dialer(identity)
  onTestFinished(() => host.stop())
  let isOver = false
  const storm = async () => {
    let tries = 0
    // A refused stream may end before it is open.
    for (; !isOver || tries < 100; tries += 1) await host.worker().then(join, () => {})
    return tries
  }
  const reconnect = async () => {
    let tries = 0
    for (; !isOver || tries < 10; tries += 1) {
      const again = await dialer(identity)
      await again.worker().then(join, () => {})
      await again.stop()
    }
    return tries
  }
  const storms = [storm(), storm(), reconnect()]
  for (let count = 1; count <= 8; count += 1) expect(await buy(agentId, `call ${count}`)).toBe(`call ${count}`)
  isOver = true
  const tries = (await Promise.all(storms)).reduce((sum, one) => sum + one, 0)
  expect(tries).toBeGreaterThan(200)
  // Nearly all were refused before anything was read of them.
  expect(welcomed).toBeLessThan(tries / 2)
  await until(async () => (await connected()).length === 1)
  // Three times on the market, and off it.
  await until(() => listed % 2 === 0)
  expect(listed).toBeLessThanOrEqual(6)
})

test('T34 a worker that never answers costs its seller one time limit of the agent, and the buyer nothing', async () => {
  const host = await dialer(await createIdentity())
  onTestFinished(() => host.stop())
  const worker = await host.worker()
  expect(await worker.join(readJoinToken((await invite()).token), ['stuck'])).toMatchObject({ type: 'work.welcome' })
  const { id: agentId } = await discover(buyer, seller.peerId, 'stuck')
  const { id: honest } = await discover(buyer, seller.peerId, 'honest')
  await until(async () => (await seller.status()).settlement.pending === 0)
  const before = await devnet.chain.balanceOf(payee)
  const stuck = buy(agentId, 'never done')
  await worker.task()
  expect(await buy(honest, 'meanwhile')).toBe('meanwhile')
  expect(await stuck).toBe('EXECUTION_FAILED')
  await until(async () => (await seller.status()).settlement.pending === 0)
  expect((await devnet.chain.balanceOf(payee)) - before).toBe(PRICE)
})
