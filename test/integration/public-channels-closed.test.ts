/** T36 a seller that offers no new channels, because nobody would claim them, goes on with those that exist. */
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decodePaymentRequiredHeader } from '@x402/core/http'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { NETWORK } from '../../devnet/chain.ts'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { openChannelBuyer } from '../support/http-channel-buyer.ts'
import { freePort } from '../support/loopback.ts'
import { patiently, send, sendTask } from '../support/public-seller.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'

const PRICE = 1_000n
let devnet: Devnet
let home: string
let seller: TestNode
/** Of the public listener, also after a restart. */
let port: number
/** A facilitator that takes no channels. */
let plain: Server
/** Without ETH. */
const walletKey = generatePrivateKey()

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-closed-channels-'))
  devnet = await startDevnet()
  port = await freePort()
  plain = createServer((_, response) => {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ kinds: [{ x402Version: 2, scheme: 'exact', network: NETWORK }] }))
  })
  await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve))
})
afterAll(async () => {
  await seller?.stop()
  plain?.close()
  await devnet?.stop()
  await rm(home, { recursive: true, force: true })
})

/** Starts the seller, and sells its only agent. @returns where */
async function startSeller(facilitatorUrl: string): Promise<string> {
  seller = await startTestNode({
    ...{ devnet: { ...devnet, facilitatorUrl }, walletKey, dataDir: join(home, 'seller') },
    ...{ public: { port }, seller: { channels: 'auto' } },
  })
  const agent = { name: 'echo', description: 'Says it again', price: PRICE }
  const { id } = await seller.node.registerAgent(agent, { persist: false, run: async (task) => String(task) })
  return `${seller.publicUrl}/x402/${id}`
}

/** A client that signs, and sends all but the requests whose task says so. */
async function startBuyer() {
  const held: Request[] = []
  const buyer = await openChannelBuyer(devnet, {
    funds: 1_000_000n,
    async pay(request) {
      if (!(await request.clone().text()).includes('held')) return fetch(request)
      held.push(request)
      return Response.json({ result: '' })
    },
  })
  const sendHeld = (at: string) =>
    sendTask(at, 'held', { 'payment-signature': held[0]!.headers.get('payment-signature')! })
  return { ...buyer, sendHeld }
}

test('a voucher of an open channel buys its call, and a deposit that may have been sent before is not refused', async () => {
  let url = await startSeller(devnet.facilitatorUrl)
  const [buyer, newcomer] = [await startBuyer(), await startBuyer()]
  expect((await buyer.buy(url, 'one')).status).toBe(200)
  await buyer.buy(url, 'held')
  await newcomer.buy(url, 'held')
  await seller.stop()
  url = await startSeller(`http://127.0.0.1:${(plain.address() as AddressInfo).port}`)
  const { accepts } = decodePaymentRequiredHeader((await send(url)).headers.get('payment-required')!)
  expect(accepts.map(({ scheme }) => scheme)).toEqual(['exact'])
  expect((await buyer.sendHeld(url)).json).toEqual({ result: 'held' })
  expect((await newcomer.sendHeld(url)).status).toBe(503)
  await seller.stop()
  url = await startSeller(devnet.facilitatorUrl)
  expect((await patiently(() => newcomer.sendHeld(url))).json).toEqual({ result: 'held' })
})
