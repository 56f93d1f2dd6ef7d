/** Agents that clients of others buy over HTTP: x402 in both versions, with money on a real chain. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { axiosBuyer, fetchBuyer, oldFetchBuyer } from '../support/http-buyers.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'

const PRICE = 20_000n
let devnet: Devnet
let seller: TestNode
let home: string
let url: string

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-public-'))
  devnet = await startDevnet()
  seller = await startTestNode({
    devnet,
    walletKey: devnet.wallets.seller.privateKey,
    dataDir: join(home, 'seller'),
    public: { port: 0 },
  })
  const definition = { name: 'echo', description: 'Says it again', price: PRICE, model: 'builtin/echo' }
  const { id } = await seller.node.registerAgent(definition, { persist: false })
  url = `${seller.publicUrl}/x402/${id}`
})
afterAll(async () => {
  await seller?.stop()
  await devnet?.stop()
  await rm(home, { recursive: true, force: true })
})

const money = () =>
  Promise.all([devnet.wallets.buyer, devnet.wallets.seller].map(({ address }) => devnet.chain.balanceOf(address)))

test.each([
  ['@x402/fetch', async () => fetchBuyer(devnet.wallets.buyer.privateKey)],
  ['x402-fetch, of v1', () => oldFetchBuyer(devnet.wallets.buyer.privateKey)],
  ['@x402/axios', async () => axiosBuyer(devnet.wallets.buyer.privateKey)],
])('%s buys an agent, with a task as JSON or as text', async (_, buyer) => {
  const ask = await buyer()
  const before = await money()
  const json = await ask(url, { task: 'hello' })
  expect([json.status, JSON.parse(json.body)]).toEqual([200, { result: 'hello' }])
  const transaction = expect.stringMatching(/^0x[0-9a-f]{64}$/)
  expect(json.settled).toMatchObject({ success: true, transaction, payer: devnet.wallets.buyer.address })
  const text = await ask(url, 'as text')
  expect([text.status, text.body]).toEqual([200, 'as text'])
  const after = await money()
  expect([before[0]! - after[0]!, after[1]! - before[1]!]).toEqual([2n * PRICE, 2n * PRICE])
})
