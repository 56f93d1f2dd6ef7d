import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Hex } from 'viem'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type DevChain, NETWORK, startChain } from '../../devnet/chain.ts'
import { addresses } from '../../devnet/contracts.ts'
import { type Chain, createChain } from '../../src/chain/chain.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { askChainAfter } from '../../src/payments/chain-verdict.ts'
import { type FaultyRpc, refuse, result, startFaultyRpc } from '../support/faulty-rpc.ts'
import { randomHash, type SignedPayment, signPayment, transferCalldata } from '../support/signed-payment.ts'

const TIMEOUT_MS = 5_000
/** For an RPC that hangs. */
const SHORT_MS = 300
const USDC = addresses.usdc

let devChain: DevChain
const payerKey = generatePrivateKey()
const payer = privateKeyToAddress(payerKey)
const payTo = privateKeyToAddress(generatePrivateKey())

beforeAll(async () => {
  devChain = await startChain()
  await devChain.mint(payer, 1_000_000n)
})
afterAll(() => devChain.stop())

function chainAt(rpcUrl: string, options: { network?: Chain['network']; timeoutMs?: number } = {}): Chain {
  const { network = NETWORK, timeoutMs = TIMEOUT_MS } = options
  return createChain({ network, asset: USDC, rpcUrl, timeoutMs }, { logger: silentLogger })
}

const sign = (amount: bigint) => signPayment({ payerKey, payTo, amount })

function settle(payment: SignedPayment): Promise<Hex> {
  return devChain.submit({ to: USDC, data: transferCalldata(payment) })
}

/** A receipt as the RPC sends it. */
async function rawReceipt(txHash: Hex): Promise<unknown> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_getTransactionReceipt', params: [txHash] })
  const headers = { 'content-type': 'application/json' }
  const answer = (await (await fetch(devChain.rpcUrl, { method: 'POST', headers, body })).json()) as { result: unknown }
  return answer.result
}

describe('an RPC in trouble (T15)', () => {
  let rpc: FaultyRpc
  let chain: Chain
  beforeEach(async () => {
    rpc = await startFaultyRpc(devChain.rpcUrl)
    chain = chainAt(rpc.url)
  })
  afterEach(() => rpc.stop())

  const questions: [string, (chain: Chain, signal?: AbortSignal) => Promise<unknown>][] = [
    ['usdcBalance', (asked, signal) => asked.usdcBalance(payTo, signal)],
    ['authorizationUse', (asked, signal) => asked.authorizationUse(USDC, payer, randomHash(), signal)],
    ['authorizationAt', (asked, signal) => asked.authorizationAt(USDC, payer, randomHash(), signal)],
    ['transferOf', (asked, signal) => asked.transferOf(randomHash(), payer, randomHash(), signal)],
    ['chainId', (asked, signal) => asked.chainId(signal)],
    ['blockTimeMs', (asked, signal) => asked.blockTimeMs(signal)],
  ]
  const failure = (promise: Promise<unknown>) =>
    promise.then(
      (value) => expect.fail(`answered ${String(value)}`),
      (error: Error & { code?: string }) => {
        expect(`${error.message} ${error.stack} ${String(error.cause)}`).not.toMatch(/SECRET|v2|127\.0\.0\.1:/)
        return error
      },
    )

  it.each(questions)('%s: nobody listens', async (_, ask) => {
    await rpc.stop()
    const error = await failure(ask(chain))
    expect(error).toMatchObject({ code: 'CHAIN_UNAVAILABLE', message: expect.stringContaining('ECONNREFUSED') })
  })

  it.each(questions)('%s: never answers', async (_, ask) => {
    rpc.fault = () => true
    const start = performance.now()
    const hurried = chainAt(rpc.url, { timeoutMs: SHORT_MS })
    expect(await failure(ask(hurried))).toMatchObject({ code: 'CHAIN_UNAVAILABLE' })
    expect(performance.now() - start).toBeLessThan(SHORT_MS * 3 + 10_000)
  })

  it.each(questions)('%s: answers the first question and then no more', async (name, ask) => {
    const hurried = chainAt(rpc.url, { timeoutMs: SHORT_MS })
    rpc.fault = (request) => request.method !== 'eth_chainId'
    if (name === 'chainId') rpc.fault = () => true
    expect(await failure(ask(hurried))).toMatchObject({ code: 'CHAIN_UNAVAILABLE' })
  })

  it.each(questions)('%s: answers with a web page', async (_, ask) => {
    rpc.fault = (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/html' }).end('<html>Welcome to 127.0.0.1:8080 SECRET</html>')
      return true
    }
    expect(await failure(ask(chain))).toMatchObject({ code: 'CHAIN_UNAVAILABLE' })
  })

  it.each(questions)('%s: answers the right chain id and then garbage', async (name, ask) => {
    for (const garbage of ['0x', '0xzz', 7, true, {}, [], 'SECRET', '0x'.padEnd(4_000, 'f')]) {
      rpc.fault = (request, response) =>
        (name === 'chainId' || request.method !== 'eth_chainId') && result(response, request, garbage)
      expect(await failure(ask(chainAt(rpc.url)))).toMatchObject({ code: 'CHAIN_UNAVAILABLE' })
    }
  })

  it.each(questions)('%s: says no, with the key in its words', async (_, ask) => {
    rpc.fault = (request, response) => refuse(response, request, `SECRET-API-KEY over quota, see ${rpc.url}`)
    const error = await failure(ask(chain))
    expect(error).toMatchObject({
      code: 'CHAIN_UNAVAILABLE',
      message: expect.stringContaining('[key] over quota, see [url]'),
    })
  })

  it.each(questions)('%s: closes the connection in the middle of its answer', async (_, ask) => {
    rpc.fault = (_request, response) => {
      response.writeHead(200, { 'content-length': 1_000 }).write('{"jsonrpc"', () => response.destroy())
      return true
    }
    expect(await failure(ask(chain))).toMatchObject({ code: 'CHAIN_UNAVAILABLE' })
  })

  it.each(questions)('%s: ends with the reason of a caller that gives up', async (_, ask) => {
    const controller = new AbortController()
    rpc.fault = () => {
      controller.abort(new Error('the node is stopping'))
      return true
    }
    await expect(ask(chain, controller.signal)).rejects.toThrow('the node is stopping')
  })

  it('is of another chain: CHAIN_WRONG that names both, before anything is believed', async () => {
    const wrong = chainAt(rpc.url, { network: 'eip155:8453' })
    for (const [name, ask] of questions) {
      if (name === 'chainId') continue
      expect(await failure(ask(wrong))).toMatchObject({
        code: 'CHAIN_WRONG',
        message: expect.stringMatching(/chain 84532, this node's network is eip155:8453.*--rpc-url.*--network/),
      })
    }
    expect(rpc.requests.every(({ method }) => method === 'eth_chainId')).toBe(true)
    expect(await wrong.chainId()).toBe(84532)
  })

  it('is asked for its chain id once, when it is right', async () => {
    await chain.usdcBalance(payTo)
    await chain.usdcBalance(payTo)
    await chain.blockTimeMs()
    expect(rpc.requests.filter(({ method }) => method === 'eth_chainId')).toHaveLength(1)
  })

  it('was down or wrong at first and is trusted once it is right', async () => {
    rpc.fault = (request, response) => result(response, request, '0x1')
    expect(chain.wrong()).toBeUndefined()
    expect(await failure(chain.usdcBalance(payTo))).toMatchObject({ code: 'CHAIN_WRONG' })
    expect(chain.wrong()).toMatch(/of chain 1, this node's network is eip155:84532/)
    rpc.fault = undefined
    await expect(chain.usdcBalance(payer)).resolves.toBeGreaterThan(0n)
    expect(chain.wrong()).toBeUndefined()
  })

  it('limits the block range of eth_getLogs: the settlement is found all the same', async () => {
    const payment = await sign(9n)
    const txHash = await settle(payment)
    await devChain.mine(60)
    let refused = 0
    rpc.fault = (request, response) => {
      if (request.method !== 'eth_getLogs') return false
      const [{ fromBlock, toBlock }] = request.params as [{ fromBlock: string; toBlock: string }]
      if (toBlock !== 'latest' && Number(toBlock) - Number(fromBlock) < 10) return false
      if (toBlock === 'latest' && refused >= 6) return false
      refused++
      return refuse(response, request, 'You can make eth_getLogs requests with up to a 10 block range', -32_600, 400)
    }
    expect(await chain.authorizationUse(USDC, payer, payment.nonce)).toMatchObject({ state: 'used', txHash })
    expect(refused).toBeGreaterThan(0)
  })

  it('is of several nodes, one of them behind: time and state are read at one block, so nothing is called unpaid (T13)', async () => {
    const payment = await sign(9n)
    await settle(payment)
    const authorization = {
      ...{ from: payment.from, to: payTo, value: 9n, nonce: payment.nonce },
      ...{ validAfter: 0n, validBefore: 1n },
    }
    // The node behind has the state of before, and lacks the block.
    rpc.fault = (request, response) => {
      if (request.method !== 'eth_call') return false
      if (request.params[1] !== 'latest') return refuse(response, request, 'header not found')
      return result(response, request, `0x${'0'.repeat(64)}`)
    }
    expect(await askChainAfter({ asset: USDC, authorization }, chain)).toMatchObject({ kind: 'unknown' })
    rpc.fault = undefined
    expect(await askChainAfter({ asset: USDC, authorization }, chain)).toMatchObject({ kind: 'paid' })
  })

  it('has thrown the logs away: the authorization is known as used, by what is not', async () => {
    const payment = await sign(9n)
    await settle(payment)
    rpc.fault = (request, response) => request.method === 'eth_getLogs' && result(response, request, [])
    expect(await chain.authorizationUse(USDC, payer, payment.nonce)).toEqual({ state: 'used', txHash: undefined })
    rpc.fault = (request, response) =>
      request.method === 'eth_getLogs' && refuse(response, request, 'the method eth_getLogs does not exist', -32_601)
    expect(await chain.authorizationUse(USDC, payer, payment.nonce)).toEqual({ state: 'used', txHash: undefined })
  })

  it('fails while it gives logs: nothing is concluded from that', async () => {
    const payment = await sign(9n)
    await settle(payment)
    rpc.fault = (request, response) => request.method === 'eth_getLogs' && refuse(response, request, 'busy', 0, 503)
    expect(await failure(chain.authorizationUse(USDC, payer, payment.nonce))).toMatchObject({
      code: 'CHAIN_UNAVAILABLE',
    })
  })

  it('shows the event but not yet its receipt: asks to try again, and claims nothing', async () => {
    const payment = await sign(9n)
    await settle(payment)
    rpc.fault = (request, response) => request.method === 'eth_getTransactionReceipt' && result(response, request, null)
    expect(await failure(chain.authorizationUse(USDC, payer, payment.nonce))).toMatchObject({
      code: 'CHAIN_UNAVAILABLE',
      message: expect.stringContaining('not its transfer yet'),
    })
  })

  it('gives logs to a transaction that failed: no payment', async () => {
    const payment = await sign(9n)
    const txHash = await settle(payment)
    const receipt = { ...((await rawReceipt(txHash)) as object), status: '0x0' }
    rpc.fault = (request, response) =>
      request.method === 'eth_getTransactionReceipt' && result(response, request, receipt)
    expect(await chain.transferOf(txHash, payer, payment.nonce)).toBe(false)
  })

  it('answers with the receipt of another transaction: not believed', async () => {
    const payment = await sign(9n)
    const txHash = await settle(payment)
    const other = await settle(await sign(9n))
    const receipt = await rawReceipt(other)
    rpc.fault = (request, response) =>
      request.method === 'eth_getTransactionReceipt' && result(response, request, receipt)
    expect(await failure(chain.transferOf(txHash, payer, payment.nonce))).toMatchObject({ code: 'CHAIN_UNAVAILABLE' })
  })

  it('has no USDC: says so instead of a balance of zero', async () => {
    const bare = createChain(
      { network: NETWORK, asset: payTo, rpcUrl: devChain.rpcUrl, timeoutMs: TIMEOUT_MS },
      { logger: silentLogger },
    )
    await expect(bare.usdcBalance(payer)).rejects.toThrow('is it an RPC of the configured network?')
  })
})

describe('an RPC address that is no RPC', () => {
  let server: Server
  beforeEach(async () => {
    // Accepts, and says nothing at all.
    server = createServer(() => {})
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  })
  afterEach(() => {
    server.closeAllConnections()
    server.close()
  })

  it('costs no more than the time limit', async () => {
    const { port } = server.address() as AddressInfo
    const chain = chainAt(`http://127.0.0.1:${port}`, { timeoutMs: SHORT_MS })
    await expect(chain.usdcBalance(payTo)).rejects.toThrow(`no answer to eth_chainId within ${SHORT_MS} ms`)
  })

  it('is not even looked up before the first question', () => {
    expect(() => chainAt('http://rpc.invalid/')).not.toThrow()
    expect(() => chainAt('nonsense')).not.toThrow()
  })
})
