/** D38 across crashes: the node whose agent buys is killed at steps of the purchase, restarted, and asked the same again. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { agentId } from '../../src/agents/agent-id.ts'
import { call, discovered } from '../support/api-calls.ts'
import {
  type FrontMarket,
  type FrontOrder,
  FUNDS,
  INNER,
  signedBy,
  startFrontMarket,
  urlOf,
} from '../support/front-market.ts'
import { localAddress } from '../support/loopback.ts'
import { stopTestNodes, testDir } from '../support/loopback-node.ts'
import { killNodeProcesses, type NodeProcess, startNodeProcess } from '../support/node-process.ts'
import { until } from '../support/until.ts'

let market: FrontMarket
beforeAll(async () => {
  market = await startFrontMarket()
})
afterAll(async () => {
  await killNodeProcesses()
  await stopTestNodes()
  await market?.stop()
})

const KEY = { 'idempotency-key': 'the-same-request' }

test.each(['buyer:signed', 'buyer:sent', 'buyer:answered'])(
  'D38 the node that buys for its agent is killed at %s: the same request again pays the agent behind once',
  async (faultPoint) => {
    const dir = await testDir()
    const key = generatePrivateKey()
    await market.devnet.fund(privateKeyToAddress(key), FUNDS)
    const entry = `agents:\n  - name: front\n    description: d\n    price: 0.05\n    a2a: ${urlOf(market.inner, market.innerId)}\n    max_price: 0.03\n`
    await writeFile(join(dir, 'agents.yaml'), entry)
    const bootstrap = localAddress(market.inner.node.addresses())
    const args = ['--data-dir', dir, '--bootstrap', bootstrap]
    const environment = {
      ETHEREUM_RPC_URL: market.devnet.rpcUrl,
      FACILITATOR_URL: market.devnet.facilitatorUrl,
      ETHEREUM_PRIVATE_KEY: key,
    }
    const task = `at ${faultPoint}`
    const execute = ({ ready }: NodeProcess) =>
      call(ready.api_url, '/execute', {
        body: { agent_id: agentId(ready.peer_id, 'front'), input: task },
        headers: KEY,
      })

    const first = await startNodeProcess({ faultPoint, args, environment })
    await discovered(first.ready.api_url, market.innerId)
    const cut = execute(first).catch(() => undefined)
    expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' })
    await cut

    const second = await startNodeProcess({ args, environment })
    const bought = () => signedBy({ url: second.ready.api_url })
    const isFinal = ({ status }: FrontOrder) => status === 'completed' || status === 'failed'
    const answer = await until(
      async () => {
        const before = await bought()
        const { body } = await execute(second)
        const { output, code, detail } = body as { output?: string; code?: string; detail?: string }
        expect(code).not.toBe('IDEMPOTENCY_CONFLICT')
        return before.length > 0 && before.every(isFinal) ? (output ?? detail) : undefined
      },
      { timeoutMs: 200_000, everyMs: 250 },
    )
    const [order, ...more] = await bought()
    expect(more).toEqual([])
    // Whether what was sent has left the process, the kill decides. What has not is never charged, and holds the run.
    if (faultPoint !== 'buyer:sent') expect(order).toMatchObject({ agent_id: market.innerId, status: 'completed' })
    const isDelivered = order!.status === 'completed'
    expect(answer).toEqual(isDelivered ? task : expect.stringMatching(/gave no result/))
    const left = FUNDS - (isDelivered ? INNER : 0n)
    await until(async () => (await market.balance(key)) === left, { everyMs: 100 })
    await second.stop()
    expect(await market.balance(key)).toBe(left)
  },
)
