/** ADR-43: what GET at the address of an agent answers, beside what POST asks without a payment. */
import { decodePaymentRequiredHeader } from '@x402/core/http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { send } from '../support/public-seller.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'

let devnet: Devnet
let seller: TestNode
let plain: TestNode

beforeAll(async () => {
  devnet = await startDevnet()
  const options = { devnet, public: { port: 0 } }
  seller = await startTestNode({
    ...{ ...options, walletKey: devnet.wallets.seller.privateKey, seller: { channels: 'auto' as const } },
  })
  plain = await startTestNode({ ...options, walletKey: devnet.wallets.seller.privateKey, seller: { channels: 'off' } })
})
afterAll(async () => {
  await seller?.stop()
  await plain?.stop()
  await devnet?.stop()
})

async function at(node: TestNode, definition: object) {
  const whole = { name: 'echo', description: 'Says it again', ...definition }
  const { id } = await node.node.registerAgent(whole, { persist: false, run: (task) => task })
  return `${node.publicUrl}/x402/${id}`
}

const read = async (url: string, method: string) => {
  const { status, headers, json } = await send(url, { method })
  const header = headers.get('payment-required')
  return { status, json, asked: header === null ? undefined : decodePaymentRequiredHeader(header) }
}
const both = (url: string) => Promise.all([read(url, 'GET'), read(url, 'POST')])
const pricing = { per_call: 300n, max: 5_000n }

test.each<[string, object, object[]]>([
  [
    'has a price',
    { name: 'priced', price: 1_000n },
    [
      { scheme: 'exact', amount: '1000' },
      { scheme: 'batch-settlement', amount: '1000' },
    ],
  ],
  [
    'is metered',
    { name: 'metered', price: 10_000n, pricing },
    [
      { scheme: 'exact', amount: '10000' },
      { scheme: 'batch-settlement', amount: '5000' },
    ],
  ],
])('GET of an agent that takes channels and %s is asked what POST is asked', async (_, definition, accepts) => {
  const url = await at(seller, definition)
  const [get, post] = await both(url)
  expect([get.status, post.status]).toEqual([402, 402])
  expect(get.asked).toMatchObject({ x402Version: 2, resource: { url }, accepts })
  expect(get.asked).toEqual(post.asked)
  expect(get.json).toMatchObject({ how: { method: 'POST', url } })
})

test('an agent that is sold on channels only is not sold over HTTP, by either method', async () => {
  const [get, post] = await both(await at(seller, { name: 'only', pricing }))
  for (const one of [get, post]) expect(one).toMatchObject({ status: 404, json: { error: { code: 'NOT_FOUND' } } })
})

test('GET of an agent that takes no channels, or costs nothing, describes it', async () => {
  for (const url of [await at(plain, { price: 1_000n }), await at(seller, { name: 'free', price: 0n })]) {
    expect(await read(url, 'GET')).toMatchObject({ status: 200, asked: undefined, json: { how: { url } } })
  }
})
