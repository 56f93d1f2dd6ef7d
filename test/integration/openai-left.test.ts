/** T35, hazard 7.20: a client of the OpenAI door that leaves while the node still asks whether the wallet can pay. */
import type { ServerResponse } from 'node:http'
import OpenAI from 'openai'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { ask } from '../support/api-calls.ts'
import { type FaultyRpc, startFaultyRpc } from '../support/faulty-rpc.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

const PRICE = 5_000n
let devnet: Devnet
let rpc: FaultyRpc
let seller: TestNode
let model: string
const runs: string[] = []

beforeAll(async () => {
  devnet = await startDevnet()
  rpc = await startFaultyRpc(devnet.rpcUrl)
  seller = await startTestNode({ devnet, walletKey: devnet.wallets.seller.privateKey })
  const run = (task: string) => {
    runs.push(task)
    return task
  }
  const definition = { name: 'echo', description: 'Says it again', price: PRICE }
  model = (await seller.node.registerAgent(definition, { persist: false, run })).id
})
afterAll(async () => {
  await seller?.stop()
  await rpc?.stop()
  await devnet?.stop()
})

/** A node that has not asked the chain yet what its wallet has. */
async function startBuyer(): Promise<TestNode> {
  const buyer = await startTestNode({
    ...{ devnet: { ...devnet, rpcUrl: rpc.url }, walletKey: devnet.wallets.buyer.privateKey },
    ...{ bootstrap: [seller.node.addresses()[0]!], openai: { enabled: true }, channels: 'off' },
  })
  onTestFinished(() => buyer.stop())
  await until(() => buyer.node.listings().some(({ id }) => id === model))
  return buyer
}

type Kept = { id: string; status: string; payment?: object }

test.each([false, true])(
  'a client that leaves before the signature has bought nothing (stream: %s)',
  async (stream) => {
    const buyer = await startBuyer()
    const content = `left early, stream: ${stream}`
    const orders = async () =>
      (await ask<(Kept & { task: string })[]>(buyer.url, '/orders?limit=50')).filter(({ task }) => task === content)
    const held: ServerResponse[] = []
    rpc.fault = (_, response) => held.push(response) > 0
    const client = new OpenAI({ baseURL: `${buyer.url}/v1`, apiKey: 'any key', maxRetries: 0 })
    const leaving = new AbortController()
    const asked = { model, messages: [{ role: 'user' as const, content }], stream }
    const left = client.chat.completions.create(asked, { signal: leaving.signal }).catch(() => 'left')
    await until(async () => held.length > 0 && (await orders()).length === 1)
    expect(await orders()).toMatchObject([{ status: 'executing' }])
    leaving.abort()
    expect(await left).toBe('left')
    await until(async () => (await orders())[0]!.status === 'failed')
    rpc.fault = undefined
    for (const response of held) response.destroy()
    expect((await orders())[0]!.payment).toBeUndefined()
    expect(runs).not.toContain(content)
    // Whoever asks again buys once.
    const again = await client.chat.completions.create({ ...asked, stream: false })
    expect(again.choices[0]!.message.content).toBe(content)
    expect((await orders()).filter(({ payment }) => payment !== undefined)).toHaveLength(1)
    expect(runs.filter((task) => task === content)).toHaveLength(1)
  },
)
