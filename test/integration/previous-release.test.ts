/**
 * Buyers and sellers of the last release before payment channels trade as before with nodes that have channels on.
 *
 * The version before the commit that brought channels runs beside this one, or that of `STOA_TEST_UPGRADE_FROM=<git ref>`. Its
 * packages are those of this checkout. A checkout without that history runs the frames written by hand alone, as those
 * nodes write them.
 */
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { createWallet } from '../../src/payments/wallet.ts'
import type { ExecutionResult } from '../../src/schema/api.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { all } from '../../src/store/query.ts'
import { ask } from '../support/api-calls.ts'
import { CHANNEL_ASSET } from '../support/channel-seller.ts'
import { CHANNEL_PRICE, readBuyerChannels, readSellerChannels, writeChannelNode } from '../support/channel-trade.ts'
import { askLedger, onServer } from '../support/ledger-engine.ts'
import { localAddress } from '../support/loopback.ts'
import { discover, startTestNode, stopTestNodes, type TestNode, testDir } from '../support/loopback-node.ts'
import { killNodeProcesses, startNodeProcess } from '../support/node-process.ts'
import { RawPeer, said } from '../support/raw-peer.ts'
import { startTestHost } from '../support/test-host.ts'
import { until } from '../support/until.ts'

const ROOT = resolve(import.meta.dirname, '../..')
// On PostgreSQL the test database has the schema of this version, which that one refuses.
const from = process.env.STOA_TEST_UPGRADE_FROM ?? (onServer ? undefined : beforeChannels())
const WAIT = { timeoutMs: 60_000, everyMs: 100 }
const CALLS = 8
/** The parent of the commit that brought channels. Undefined: this checkout does not have it. */
function beforeChannels(): string | undefined {
  const added = ['log', '--diff-filter=A', '--format=%P', '--', 'src/schema/channel.ts']
  try {
    const parents = execFileSync('git', ['-C', ROOT, ...added], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    return parents.trim().split('\n').at(-1)?.split(' ')[0] || undefined
  } catch {
    return undefined
  }
}

let devnet: Devnet
let seller: TestNode
let agentId: string
const payee = generatePrivateKey()

beforeAll(async () => {
  devnet = await startDevnet()
  const { rpcUrl, facilitatorUrl } = devnet
  seller = await startTestNode({ key: payee, rpcUrl, facilitatorUrl, sellerChannels: 'auto' })
  const agent = { name: 'repeat', description: 'repeats its task', price: CHANNEL_PRICE }
  agentId = (await seller.registerAgent(agent, { run: async (input) => String(input) })).id
})
afterAll(async () => {
  await killNodeProcesses()
  await stopTestNodes()
  await devnet.stop()
})

const earned = () => devnet.chain.balanceOf(privateKeyToAccount(payee).address)
const allSettled = () => until(async () => (await seller.status()).settlement.pending === 0, WAIT)

describe('a buyer that knows only `exact`', () => {
  test('by frames written by hand, gets the messages that it knows from a seller with channels', async () => {
    const host = await startTestHost()
    const key = generatePrivateKey()
    await devnet.fund(privateKeyToAccount(key).address, 1_000_000n)
    const wallet = createWallet(key, CHANNEL_ASSET)
    const peer = await RawPeer.open(host, { peerId: seller.peerId, addrs: seller.addresses() })
    const before = await earned()

    const correlation_id = randomUUID()
    const body = Buffer.from('by hand').toString('base64')
    const asked = await peer.request(agentId, 'by hand', { correlation_id })
    expect(asked?.type).toBe('x402.payment_required')
    const { payment_requirements: required, ...challenge } = asked!.message
    expect(Object.keys(challenge).toSorted()).toEqual(
      ['version', 'correlation_id', 'challenge_nonce', 'challenge_expires_at', 'message', 'seller_did'].toSorted(),
    )
    expect(required).toMatchObject({ scheme: 'exact', network: CHANNEL_ASSET.network, amount: CHANNEL_PRICE })
    const fields = ['scheme', 'network', 'amount', 'asset', 'payTo', 'maxTimeoutSeconds', 'extra']
    expect(fields).toEqual(expect.arrayContaining(Object.keys(required as object)))

    const nonce = challenge.challenge_nonce as Hex
    const { envelope } = wallet.authorize(
      required as never,
      { serverNonce: nonce, authorizationNonce: nonce },
      Date.now(),
    )
    const paid = await peer.ask('x402.paid_request', { correlation_id, payment: envelope, body })
    expect(said(paid)).toBe('by hand')
    const known = [
      'version',
      'correlation_id',
      'payment_id',
      'tx_hash',
      'body',
      'seller_did',
      'seller_token_id',
      'receipt',
    ]
    expect(known).toEqual(
      expect.arrayContaining(Object.keys(paid!.message).filter((key) => paid!.message[key] !== undefined)),
    )
    // It waits for the settlement, as it always did.
    expect(paid!.message.tx_hash).toMatch(/^0x[0-9a-f]{64}$/)

    // The same again, paid for in the first message.
    const authorizationNonce: Hex = `0x${randomUUID().replaceAll('-', '').repeat(2)}`
    const preemptive = wallet.authorize(
      required as never,
      { serverNonce: 'preemptive', authorizationNonce },
      Date.now(),
    )
    expect(said(await peer.request(agentId, 'at once', { payment: preemptive.envelope }))).toBe('at once')
    await until(async () => (await earned()) === before + 2n * CHANNEL_PRICE, WAIT)
    await peer.close()
    await host.stop()
    expect(await readSellerChannels(seller.dataDir)).toEqual([])
  })

  test('that asks for a scheme which it does not carry out is told so, and nothing is consumed', async () => {
    const host = await startTestHost()
    const peer = await RawPeer.open(host, { peerId: seller.peerId, addrs: seller.addresses() })
    const { network } = CHANNEL_ASSET
    const envelope = { x402_version: 2, scheme: 'batch-settlement', network, server_nonce: 'preemptive' }
    const payment = { ...envelope, payer: devnet.wallets.buyer.address }
    expect(said(await peer.request(agentId, 'task', { payment }))).toBe('PAYMENT_INVALID')
    expect(said(await peer.request(agentId, 'task', { method: 'refund' }))).toBe('PAYMENT_REQUIRED')
    expect((await peer.request(agentId, 'task'))?.type).toBe('x402.payment_required')
    await peer.close()
    await host.stop()
  })
})

describe.skipIf(from === undefined)('the last release before channels', () => {
  let checkout: string
  let faultyNode: string

  beforeAll(async () => {
    checkout = await mkdtemp(join(tmpdir(), 'stoa-before-'))
    const archive = execFileSync('git', ['-C', ROOT, 'archive', from!], { maxBuffer: 2 ** 30 })
    execFileSync('tar', ['-x', '-C', checkout], { input: archive })
    await symlink(join(ROOT, 'node_modules'), join(checkout, 'node_modules'))
    faultyNode = join(checkout, 'test/support/faulty-node.ts')
  })
  afterAll(() => rm(checkout, { recursive: true, force: true }))

  const chain = () => ({ ETHEREUM_RPC_URL: devnet.rpcUrl, FACILITATOR_URL: devnet.facilitatorUrl })

  test('as a buyer, finds a seller with channels and pays each call by itself', async () => {
    const key = generatePrivateKey()
    await devnet.fund(privateKeyToAccount(key).address, 1_000_000n)
    const args = ['--data-dir', await testDir(), '--bootstrap', localAddress(seller.addresses())]
    const old = await startNodeProcess({ faultyNode, args, environment: { ...chain(), BUYER_PRIVATE_KEY: key } })
    const url = old.ready.api_url
    await until(async () => (await ask<{ id: string }[]>(url, '/agents')).some(({ id }) => id === agentId), WAIT)
    await allSettled()
    const before = await earned()
    for (let n = 0; n < CALLS; n += 1) {
      const { output } = await ask<ExecutionResult>(url, `/agents/${agentId}/execute`, { body: { task: `task ${n}` } })
      expect(output).toBe(`task ${n}`)
    }
    await until(async () => (await earned()) === before + BigInt(CALLS) * CHANNEL_PRICE, WAIT)
    expect(await readSellerChannels(seller.dataDir)).toEqual([])
    await old.stop()
  })

  test('as a seller, is bought from by a node with channels, call by call', async () => {
    const dir = await testDir()
    await writeChannelNode(dir, join(dir, 'runs'))
    await rm(join(dir, 'config.yaml'))
    const key = generatePrivateKey()
    const { rpcUrl, facilitatorUrl, wallets } = devnet
    const buyer = await startTestNode({ key: wallets.buyer.privateKey, rpcUrl, facilitatorUrl, channels: 'auto' })
    const args = ['--data-dir', dir, '--bootstrap', localAddress(buyer.addresses())]
    const old = await startNodeProcess({ faultyNode, args, environment: { ...chain(), SELLER_PRIVATE_KEY: key } })
    const { id, channel } = await discover(buyer, old.ready.peer_id, 'repeat', WAIT)
    expect(channel).toBeUndefined()
    const bought = await Promise.all(
      Array.from({ length: CALLS }, (_, n) =>
        buyer.execute({ agentId: id, input: `task ${n}`, signal: AbortSignal.timeout(60_000) }),
      ),
    )
    expect(bought.map(({ output }) => output)).toEqual(bought.map((_, n) => `task ${n}`))
    const account = privateKeyToAccount(key).address
    await until(async () => (await devnet.chain.balanceOf(account)) === BigInt(CALLS) * CHANNEL_PRICE, WAIT)
    expect((await readBuyerChannels(buyer.dataDir)).channels).toEqual([])
    const status = () => ask<{ settlement: { pending: number } }>(old.ready.api_url, '/status')
    await until(async () => (await status()).settlement.pending === 0, WAIT)
    await old.stop()
    const sold = await askLedger(dir, all<{ state: string }>('SELECT state FROM payments'))
    expect(sold.map(({ state }) => state)).toEqual(sold.map(() => 'settled'))
  })
})
