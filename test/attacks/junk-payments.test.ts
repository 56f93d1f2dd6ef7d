/** T31 T36: payments of empty accounts, well signed, from many addresses, beside buyers that pay. */
import { request, type ServerResponse } from 'node:http'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { type FaultyRpc, type RpcRequest, refuse, startFaultyRpc } from '../support/faulty-rpc.ts'
import { signFor, termsAt } from '../support/public-seller.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

/** Checks at once, of addresses that have not paid. */
const CHECKS_MAX = 16
const JUNK = 64
let devnet: Devnet
let rpc: FaultyRpc
let seller: TestNode
let url: string

beforeAll(async () => {
  devnet = await startDevnet()
  rpc = await startFaultyRpc(devnet.rpcUrl)
  const walletKey = devnet.wallets.seller.privateKey
  seller = await startTestNode({ devnet: { ...devnet, rpcUrl: rpc.url }, walletKey, public: { port: 0 } })
  const agent = { name: 'echo', description: 'Says it again', price: 10_000n }
  const { id } = await seller.node.registerAgent(agent, { persist: false, run: async (task) => task })
  url = `${seller.publicUrl}/x402/${id}`
})
afterAll(async () => {
  await seller?.stop()
  await rpc?.stop()
  await devnet?.stop()
})

/** A new payment, sent from an address of this machine. @returns the status of its answer */
async function pay(key: Hex, localAddress: string): Promise<number> {
  const headers = { 'content-type': 'application/json', ...(await signFor(await termsAt(url), key)) }
  return new Promise((resolve, reject) => {
    const paying = request(url, { method: 'POST', localAddress, headers, agent: false })
    paying.on('response', (answer) => resolve(answer.resume().statusCode!)).on('error', reject)
    paying.end('{"task":"x"}')
  })
}

async function payer(): Promise<Hex> {
  const key = generatePrivateKey()
  await devnet.fund(privateKeyToAccount(key).address, 1_000_000n)
  return key
}

test('payments of empty accounts wait for one another, and not those of an address that has paid', async () => {
  const honest = await payer()
  expect(await pay(honest, '127.0.78.1')).toBe(200)
  const empty = Array.from({ length: JUNK }, generatePrivateKey)
  const accounts = empty.map((key) => privateKeyToAccount(key).address.slice(2).toLowerCase())
  // The RPC answers none of their checks.
  const held = new Map<ServerResponse, RpcRequest>()
  let most = 0
  const isTheirs = ({ method, params }: RpcRequest) => {
    const text = JSON.stringify(params).toLowerCase()
    return method === 'eth_call' && accounts.some((account) => text.includes(account))
  }
  rpc.fault = (asked, response) => {
    if (!isTheirs(asked)) return false
    held.set(response, asked)
    response.once('close', () => held.delete(response))
    most = Math.max(most, held.size)
    return true
  }
  const junk = empty.map((key, index) => pay(key, `127.0.79.${index + 1}`))
  await until(() => held.size >= CHECKS_MAX)
  expect(await pay(honest, '127.0.78.1')).toBe(200)
  const reverted = 'execution reverted: ERC20: transfer amount exceeds balance'
  rpc.fault = (asked, response) => isTheirs(asked) && refuse(response, asked, reverted, 3)
  for (const [response, asked] of held) refuse(response, asked, reverted, 3)
  // One that comes for the first time has its turn.
  expect(await pay(await payer(), '127.0.78.2')).toBe(200)
  await Promise.all(junk)
  expect(most).toBe(CHECKS_MAX)
})
