/** D38 across crashes: a buyer is killed at every step of a purchase, restarted, and asked the same with the same key. */
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { ask, call } from '../support/api-calls.ts'
import { localAddress } from '../support/loopback.ts'
import { startTestNode, stopTestNodes, type TestNode, testDir } from '../support/loopback-node.ts'
import { killNodeProcesses, type NodeProcess, startNodeProcess } from '../support/node-process.ts'
import { until } from '../support/until.ts'

const PRICE = 10_000n
const FUNDS = 1_000_000n
const KEY = { 'idempotency-key': 'the-same-request' }
type Order = { id: string; status: string; output?: string; payment?: { amount: string } }

let devnet: Devnet
let seller: TestNode
beforeAll(async () => {
  devnet = await startDevnet()
  const chain = { rpcUrl: devnet.rpcUrl, facilitatorUrl: devnet.facilitatorUrl }
  seller = await startTestNode({ key: devnet.wallets.seller.privateKey, ...chain })
  await seller.registerAgent({ name: 'echo', description: 'repeats', price: PRICE, model: 'builtin/echo' })
})
afterAll(async () => {
  await killNodeProcesses()
  await stopTestNodes()
  await devnet.stop()
})

async function agentAt({ ready }: NodeProcess): Promise<string> {
  const find = async () => (await ask<{ id: string }[]>(ready.api_url, '/agents'))[0]?.id
  return until(find)
}
const doors = {
  execute: (agentId: string, task: string) => ['/execute', { agent_id: agentId, input: task }] as const,
  order: (agentId: string, task: string) => ['/orders', { agent_id: agentId, price: '0.01', task }] as const,
  workflow: (agentId: string, task: string) => ['/workflows', { agent_ids: [agentId], input: task }] as const,
}
type Door = keyof typeof doors
/** What was reserved and not sent is never used; whether what was sent has left the process, the kill decides. */
const cases: [Door, string, 'never' | 'if paid' | 'always'][] = [
  ['execute', 'buyer:signed', 'always'],
  ['execute', 'buyer:reserved', 'never'],
  ['execute', 'buyer:sent', 'if paid'],
  ['execute', 'buyer:answered', 'always'],
  ['execute', 'after its end', 'always'],
  ['order', 'buyer:signed', 'always'],
  ['order', 'buyer:sent', 'if paid'],
  ['workflow', 'buyer:signed', 'always'],
  ['workflow', 'buyer:sent', 'if paid'],
]

describe('D38 T25 a buyer is killed with a key', { concurrent: true }, () => {
  test.each(cases)(
    'POST /%s at %s: the same request makes one order, and one payment at most',
    async (door, faultPoint, delivered) => {
      const dir = await testDir()
      const key = generatePrivateKey()
      const payer = privateKeyToAccount(key).address
      await devnet.fund(payer, FUNDS)
      const bootstrap = localAddress(seller.addresses())
      const args = ['--data-dir', dir, '--bootstrap', bootstrap]
      const environment = {
        ETHEREUM_RPC_URL: devnet.rpcUrl,
        FACILITATOR_URL: devnet.facilitatorUrl,
        BUYER_PRIVATE_KEY: key,
      }
      const task = `${door} at ${faultPoint}`

      const first = await startNodeProcess({ faultPoint, args, environment })
      const [path, body] = doors[door](await agentAt(first), task)
      const answered = call(first.ready.api_url, path, { body, headers: KEY }).catch(() => undefined)
      if (!faultPoint.startsWith('buyer:')) {
        await answered
        await until(async () => (await allOrders(first)).every(({ status }) => status === 'completed'))
        first.child.kill('SIGKILL')
      }
      expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' })
      await answered

      const second = await startNodeProcess({ args, environment })
      const ids = new Set<string>()
      const ended = await until(
        async () => {
          const again = await call(second.ready.api_url, path, { body, headers: KEY })
          const { id, order_id, code } = again.body as { id?: string; order_id?: string; code?: string }
          ids.add(id ?? order_id ?? '')
          expect(['IDEMPOTENCY_CONFLICT', 'INTERNAL']).not.toContain(code)
          const open = (await allOrders(second)).filter(({ status }) => /pending|executing/.test(status))
          return open.length === 0
        },
        { timeoutMs: 60_000, everyMs: 250 },
      )
      expect(ended).toBe(true)
      const charged = (await allOrders(second)).filter(({ payment }) => payment !== undefined)
      expect(charged).toHaveLength(1)
      await until(async () => (await seller.status()).settlement.pending === 0, { everyMs: 100 })
      const paid = FUNDS - (await devnet.chain.balanceOf(payer))
      expect([0n, PRICE]).toContain(paid)
      if (delivered !== 'if paid') expect(paid).toBe(delivered === 'always' ? PRICE : 0n)
      const isDelivered = paid === PRICE
      expect(charged[0]!.status).toBe(isDelivered ? 'completed' : 'failed')
      if (isDelivered) expect(charged[0]!.output).toBe(task)
      ids.delete('')
      expect(ids.size).toBeLessThanOrEqual(1)
      await second.stop()
    },
  )
})

async function allOrders({ ready }: NodeProcess): Promise<Order[]> {
  return ask<Order[]>(ready.api_url, '/orders?limit=100')
}
