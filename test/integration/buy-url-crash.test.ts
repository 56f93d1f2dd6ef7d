/** T41 D54 across crashes: a buyer is killed around its payment to a seller over HTTP. The chain says what was charged. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { ask, call } from '../support/api-calls.ts'
import { testDir } from '../support/loopback-node.ts'
import { killNodeProcesses, startNodeProcess } from '../support/node-process.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

const PRICE = 10_000n
const FUNDS = 1_000_000n
type Order = { id: string; status: string; output?: string; payment?: { book: string } }
let devnet: Devnet
let seller: TestNode
let url: string
/** Called by the agent while it works. */
let onRun: () => void = () => {}
const runs: string[] = []

beforeAll(async () => {
  devnet = await startDevnet()
  seller = await startTestNode({ devnet, walletKey: devnet.wallets.seller.privateKey, public: { port: 0 } })
  const run = async (task: string) => {
    runs.push(task)
    onRun()
    return `${task}!`
  }
  const definition = { name: 'echo', description: 'Says it again', price: PRICE }
  const { id } = await seller.node.registerAgent(definition, { persist: false, run })
  url = `${seller.publicUrl}/x402/${id}`
})
afterAll(async () => {
  await killNodeProcesses()
  await seller?.stop()
  await devnet?.stop()
})

test.each([
  ['before the signature is stored', 'buyer:signed'],
  ['before the payment leaves', 'buyer:reserved'],
  ['while the seller works', undefined],
  ['before the result is stored', 'buyer:answered'],
])('a buyer that is killed %s has one order, one run and one payment at most', async (_, faultPoint) => {
  const [dir, key, task] = [await testDir(), generatePrivateKey(), `killed at ${faultPoint ?? 'work'}`]
  const payer = privateKeyToAccount(key).address
  await devnet.fund(payer, FUNDS)
  const args = ['--data-dir', dir]
  const environment = { ETHEREUM_RPC_URL: devnet.rpcUrl, BUYER_PRIVATE_KEY: key }
  await writeFile(join(dir, 'config.yaml'), `buyer:\n  private_origins: ['${new URL(url).origin}']\n`, {
    mode: 0o600,
  })
  const first = await startNodeProcess({ faultPoint, args, environment })
  if (faultPoint === undefined) onRun = () => void first.child.kill('SIGKILL')
  const body = { url, task, max_price: '0.01' }
  const asked = () => ({ body, headers: { 'idempotency-key': 'the-same' } })
  const answered = call(first.ready.api_url, '/execute', asked()).catch(() => undefined)
  expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' })
  await answered
  onRun = () => {}

  const second = await startNodeProcess({ args, environment })
  const orders = () => ask<Order[]>(second.ready.api_url, '/orders?limit=10')
  const found = await until(
    async () => {
      await call(second.ready.api_url, '/execute', asked())
      const signed = (await orders()).filter(({ payment }) => payment !== undefined)
      return signed.some(({ status }) => status === 'completed') ? signed : undefined
    },
    { timeoutMs: 200_000, everyMs: 250 },
  )
  expect(found).toMatchObject([{ status: 'completed', output: `${task}!` }])
  await until(async () => (await orders()).some(({ payment }) => payment?.book === 'paid'), {
    timeoutMs: 60_000,
    everyMs: 100,
  })
  expect(FUNDS - (await devnet.chain.balanceOf(payer))).toBe(PRICE)
  expect(runs.filter((run) => run === task)).toHaveLength(1)
  await second.stop()
})
