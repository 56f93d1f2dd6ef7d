/** T5: one signed payment, sent by hand to every process of a seller in the same moment. The chain is the judge. */
import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { createIdentity, loadOrCreateIdentity } from '../../src/p2p/identity.ts'
import { createWallet } from '../../src/payments/wallet.ts'
import type { Listing } from '../../src/schema/listing.ts'
import { ask } from '../support/api-calls.ts'
import { stopTestNodes, testDir } from '../support/loopback-node.ts'
import { killNodeProcesses, startNodeProcess } from '../support/node-process.ts'
import { randomHex, requirements, usdc } from '../support/payments.ts'
import { type RawAnswer, RawPeer, said } from '../support/raw-peer.ts'
import { startTestHost } from '../support/test-host.ts'
import { createTestDatabase } from '../support/test-postgres.ts'
import { until } from '../support/until.ts'

const PRICE = 10_000n
const FUNDS = 1_000_000n
const ROUNDS = 8
let devnet: Devnet

beforeAll(async () => {
  devnet = await startDevnet()
})
afterAll(async () => {
  await killNodeProcesses()
  await stopTestNodes()
  await devnet.stop()
})

/** Three processes of one seller. Each run of the agent is a line of one file. */
async function startSellers() {
  const database = await createTestDatabase()
  onTestFinished(() => database.drop())
  const key = generatePrivateKey()
  const dirs = [await testDir(), await testDir(), await testDir()]
  const runs = join(dirs[0]!, 'runs')
  await loadOrCreateIdentity(join(dirs[0]!, 'identity.key'))
  const command = ['/bin/sh', '-c', 'task=$(cat); echo "$task" >> "$0"; sleep 0.3; printf %s "$task"', runs]
  const agents = [{ name: 'repeat', description: 'x', price: 0.01, command }]
  const start = async (dir: string) => {
    if (dir !== dirs[0]) await copyFile(join(dirs[0]!, 'identity.key'), join(dir, 'identity.key'))
    await writeFile(join(dir, 'agents.yaml'), JSON.stringify({ agents }))
    return startNodeProcess({
      args: ['--data-dir', dir],
      environment: {
        ETHEREUM_RPC_URL: devnet.rpcUrl,
        FACILITATOR_URL: devnet.facilitatorUrl,
        ETHEREUM_PRIVATE_KEY: key,
        DATABASE_URL: database.address(),
      },
    })
  }
  const sellers = await Promise.all(dirs.map(start))
  const [{ id } = { id: '' }] = await ask<Listing[]>(sellers[0]!.ready.api_url, '/agents')
  const lines = async () => (await readFile(runs, 'utf8').catch(() => '')).split('\n').filter(Boolean)
  return { sellers, id, payee: privateKeyToAccount(key).address, runs: lines }
}

type Seller = { ready: { peer_id: string; addresses: string[] } }

/** One buyer, on a host for each process: a host keeps one connection to a peer id, and here three peers have the same. */
async function clientsOf(sellers: readonly Seller[]): Promise<RawPeer[]> {
  const identity = await createIdentity()
  const open = async ({ ready }: Seller) => {
    const host = await startTestHost({ identity })
    onTestFinished(() => host.stop())
    return RawPeer.open(host, { peerId: ready.peer_id, addrs: ready.addresses })
  }
  return Promise.all(sellers.map(open))
}

test('T5 a payment that three processes get in the same moment buys one run and one charge, and they agree on its result', async () => {
  const { sellers, id, payee, runs } = await startSellers()
  const wallet = createWallet(generatePrivateKey(), usdc)
  await devnet.fund(wallet.address, FUNDS)
  const clients = await clientsOf(sellers)
  const send = (task: string, payment: unknown) =>
    Promise.all(clients.map((client) => client.request(id, task, { payment })))
  for (let round = 1; round <= ROUNDS; round += 1) {
    const task = `task ${round}`
    const nonces = { serverNonce: 'preemptive', authorizationNonce: randomHex() } as const
    const { envelope } = wallet.authorize(requirements({ payTo: payee }), nonces, systemClock.now())
    const answers = await send(task, envelope)
    expect(answers.map(said).toSorted()).toEqual(['PAYMENT_NONCE_USED', 'PAYMENT_NONCE_USED', task])
    expect(await runs()).toHaveLength(round)
    // Whoever asks for the result, at whatever process, gets it, or is told to ask again.
    for (const client of clients) {
      const isGiven = async () => {
        const answer: RawAnswer = await client.request(id, '', { method: 'result', payment: envelope })
        if (answer?.type === 'x402.error') expect(answer.message.retryable, said(answer) as string).toBe(true)
        return said(answer) === task
      }
      await until(isGiven, { everyMs: 100 })
    }
    // The same payment for another task buys nothing.
    expect((await send('another task', envelope)).map(said)).toEqual(sellers.map(() => 'PAYMENT_NONCE_USED'))
  }
  const settled = async () => (await devnet.chain.balanceOf(payee)) === PRICE * BigInt(ROUNDS)
  await until(settled, { timeoutMs: 60_000, everyMs: 100 })
  expect(await devnet.chain.balanceOf(wallet.address)).toBe(FUNDS - PRICE * BigInt(ROUNDS))
  expect(await runs()).toEqual(Array.from({ length: ROUNDS }, (_, index) => `task ${index + 1}`))
}, 300_000)
