/** T36: the public listener of a node behind a proxy: whom a request counts for, and which address clients are told. */
import { Agent, request } from 'node:http'
import { decodePaymentRequiredHeader } from '@x402/core/http'
import { generatePrivateKey } from 'viem/accounts'
import { expect, onTestFinished, test } from 'vitest'
import { send } from '../support/public-seller.ts'
import { startTestNode } from '../support/test-node.ts'

/** Far more than an address may ask for without a payment while they are sent. */
const REQUESTS = 1_500

async function start(trustedProxies: string[]) {
  const seller = await startTestNode({
    walletKey: generatePrivateKey(),
    public: { port: 0, trustedProxies },
  })
  onTestFinished(() => seller.stop())
  const definition = { name: 'echo', description: 'Says it again', price: 1_000n }
  const run = async (task: string) => task
  const { id } = await seller.node.registerAgent(definition, { persist: false, run })
  return `${seller.publicUrl}/x402/${id}`
}

/** How many of many requests are answered with a price, if each names the address that it comes from. */
async function answered(url: string, addressOf: (index: number) => string): Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: 100 })
  onTestFinished(() => agent.destroy())
  const statusOf = (index: number) =>
    new Promise<number>((resolve, reject) => {
      const headers = { 'content-type': 'application/json', 'x-forwarded-for': addressOf(index) }
      const asking = request(url, { method: 'POST', agent, headers }, (answer) => {
        answer.resume().on('end', () => resolve(answer.statusCode!))
      })
      asking.on('error', reject).end('{"task":"x"}')
    })
  const statuses = await Promise.all(Array.from({ length: REQUESTS }, (_, index) => statusOf(index)))
  expect(statuses.filter((status) => status !== 402 && status !== 429)).toEqual([])
  return statuses.filter((status) => status === 402).length
}
const many = (index: number) => `203.0.113.${1 + (index % 250)}`

test('a trusted proxy names its clients: each has a share of its own, and what they make up stands further left', async () => {
  const url = await start(['127.0.0.0/8'])
  expect(await answered(url, many)).toBe(REQUESTS)
  expect(await answered(url, () => '198.51.100.1')).toBeLessThan(REQUESTS)
  expect(await answered(url, (index) => `${many(index)}, 198.51.100.2`)).toBeLessThan(REQUESTS)
})

test('without a trusted proxy nobody has a second share by a header', async () => {
  const url = await start([])
  expect(await answered(url, many)).toBeLessThan(REQUESTS)
})

test('the address in an offer is that of the listener, whatever a request says of host and protocol', async () => {
  const url = await start(['127.0.0.0/8'])
  const headers = { 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'https', forwarded: 'host=evil.example' }
  const { headers: said } = await send(`${url}?evil=1`, { headers })
  expect(decodePaymentRequiredHeader(said.get('payment-required')!).resource?.url).toBe(url)
})
