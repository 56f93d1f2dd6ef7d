/** ADR-28: an agent of workers at a seller of two processes, and a worker that is connected to one of them. */
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { loadOrCreateIdentity } from '../../src/p2p/identity.ts'
import { addressesOf, inOwnOrder } from '../../src/p2p/multiaddrs.ts'
import type { Fleet } from '../../src/schema/fleet.ts'
import type { InvitedWorker, WorkerRecord } from '../../src/schema/worker.ts'
import { ask } from '../support/api-calls.ts'
import { useBuyerMarket } from '../support/buyer-market.ts'
import { discover, testDir } from '../support/loopback-node.ts'
import type { NodeProcess } from '../support/node-process.ts'
import { openSellerProcesses } from '../support/seller-processes.ts'
import { until } from '../support/until.ts'
import { startWorkerProcess } from '../support/worker-process.ts'

const WAIT = { timeoutMs: 60_000, everyMs: 50 }
const market = useBuyerMarket()

test('a buyer that is connected to the process without a worker gets its result from the other', async () => {
  const painter = { name: 'painter', description: 'paints', price: 0.01, worker: true }
  // Each process sells an agent that only it has.
  const alone = (name: string) => ({ name: `only ${name}`, description: 'x', price: 0, command: ['/bin/cat'] })
  const shop = await openSellerProcesses((name) => [painter, alone(name)], market)
  const running = { a: await shop.start('a'), b: await shop.start('b') }
  const { token } = await ask<InvitedWorker>(running.a.ready.api_url, '/workers', { body: {} })
  const agents = [{ ...painter, price: 0, worker: undefined, command: ['/bin/sh', '-c', 'cat; echo " painted"'] }]
  const worker = await startWorkerProcess({ dataDir: await testDir(), token, agents })
  await worker.joined()
  const { id } = await discover(market.buyer, shop.seller, 'painter', WAIT)
  const buy = async (agentId: string, input: string) =>
    (await market.buyer.execute({ agentId, input, signal: AbortSignal.timeout(60_000) })).output

  let processes: string[] = []
  await until(async () => {
    const [record] = await ask<WorkerRecord[]>(running.a.ready.api_url, '/workers')
    processes = record?.processes ?? []
    return processes.length === 1
  }, WAIT)
  // The buyer's connection is to each of them in turn, and the worker's stays.
  for (const name of ['a', 'b'] as const) {
    const { id: only } = await discover(market.buyer, shop.seller, `only ${name}`, WAIT)
    expect(await buy(only, 'hello')).toBe('hello')
    expect(await buy(id, `a house after ${name}`)).toBe(`a house after ${name} painted`)
  }

  // The process with the worker dies, and its listing is on the market still. The worker goes to the other.
  const home = processes[0]
  const ids = Object.fromEntries(
    (await ask<Fleet>(running.a.ready.api_url, '/fleet')).processes.map((one) => [one.id, one.answering ? 'a' : 'b']),
  )
  const died = ids[home!] === 'a' ? running.a : running.b
  died.child.kill('SIGKILL')
  await until(
    () =>
      buy(id, 'a tree').then(
        (output) => output === 'a tree painted',
        () => false,
      ),
    WAIT,
  )
})

test('a worker goes on with a process that came after its invitation, when those of before are gone', async () => {
  const painter = { name: 'painter', description: 'paints', price: 0, worker: true }
  const shop = await openSellerProcesses(() => [painter], market)
  const old = await shop.start('a')
  const { token } = await ask<InvitedWorker>(old.ready.api_url, '/workers', { body: {} })
  const dataDir = await testDir()
  const agents = [{ ...painter, worker: undefined, command: ['/bin/cat'] }]
  const worker = await startWorkerProcess({ dataDir, token, agents })
  await worker.joined()
  const next = await shop.start('b')
  const kept = () => readFile(join(dataDir, 'worker-seller.json'), 'utf8').catch(() => '')
  await until(async () => (await kept()).includes(next.ready.addresses[0]!), WAIT)
  old.child.kill('SIGKILL')
  await old.exited
  await worker.joined(2)
  // And after a start of its own: the token names the process of before alone.
  await worker.kill('SIGKILL')
  await (await startWorkerProcess({ dataDir, token, agents })).joined()
})

test('workers with tokens of one process spread over both, and one whose process ends goes to the other', async () => {
  const painter = { name: 'painter', description: 'paints', price: 0, worker: true }
  const shop = await openSellerProcesses(() => [painter], market)
  const running = [await shop.start('a'), await shop.start('b')]
  const [one, two] = running as [NodeProcess, NodeProcess]
  const homes = running.map(({ ready }) => ready.addresses)
  const agents = [{ ...painter, worker: undefined, command: ['/bin/cat'] }]
  const workers = []
  for (const home of homes) {
    const dataDir = await testDir()
    await keyThatBegins(home, homes.flat(), { seller: shop.seller, path: join(dataDir, 'worker.key') })
    const { token } = await ask<InvitedWorker>(one.ready.api_url, '/workers', { body: {} })
    const worker = await startWorkerProcess({ dataDir, token, agents })
    await worker.joined()
    workers.push(worker)
  }
  const connected = async () => {
    const known = await ask<WorkerRecord[]>(two.ready.api_url, '/workers')
    return known.flatMap(({ state, processes = [] }) => (state === 'connected' ? processes : []))
  }
  await until(async () => new Set(await connected()).size === 2, WAIT)
  one.child.kill('SIGKILL')
  await one.exited
  await workers[0]!.joined(2)
  await until(async () => (await connected()).length === 2 && new Set(await connected()).size === 1, WAIT)
})

/** Writes the key of a worker that begins with one of these addresses. */
async function keyThatBegins(
  at: readonly string[],
  all: readonly string[],
  { seller, path }: { seller: string; path: string },
): Promise<void> {
  for (;;) {
    const { peerId } = await loadOrCreateIdentity(path)
    if (at.includes(String(inOwnOrder(addressesOf(seller, all), peerId)[0]))) return
    await rm(path)
  }
}
