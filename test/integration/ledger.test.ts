/** T33: what becomes of a node whose ledger is used by another, or damaged, while it runs. */
import { closeSync, openSync, statSync, writeSync } from 'node:fs'
import { cp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, expect, test } from 'vitest'
import { LISTINGS_TOPIC } from '../../src/listings/gossip.ts'
import { createIdentity, loadOrCreateIdentity } from '../../src/p2p/identity.ts'
import { encodeBatch } from '../../src/protocols/sync/batch.ts'
import { onSqliteOnly } from '../support/ledger-engine.ts'
import { listingRecord, signRecord } from '../support/listings.ts'
import { localAddress } from '../support/loopback.ts'
import { discover, startTestNode, stopTestNodes, type TestNode, testDir } from '../support/loopback-node.ts'
import { killNodeProcesses, type NodeProcess, startNodeProcess } from '../support/node-process.ts'
import { startTestHost } from '../support/test-host.ts'
import { until } from '../support/until.ts'

afterAll(async () => {
  await killNodeProcesses()
  await stopTestNodes()
})

const start = (dir: string, more: string[] = []) =>
  startNodeProcess({
    args: ['--data-dir', dir, ...more],
    environment: { ETHEREUM_RPC_URL: 'http://127.0.0.1:9', FACILITATOR_URL: 'http://127.0.0.1:9' },
  })

async function ask({ ready }: NodeProcess, path: string, body?: object) {
  const response = await fetch(`${ready.api_url}${path}`, {
    ...(body && { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  })
  return { status: response.status, body: (await response.json()) as { code?: string } }
}

const ofFile = onSqliteOnly('it is about the file stoa.db, which does not hold the ledger')

ofFile('a second node is refused though the files of the lock were deleted (D3, T16)', async () => {
  const dir = await testDir()
  const first = await start(dir)
  await rm(join(dir, 'lock.db'))
  await rm(join(dir, 'lock.pid'))
  await expect(start(dir)).rejects.toThrow(/another process has .*stoa\.db open/)
  expect((await ask(first, '/orders')).status).toBe(200)
  await first.stop()
})

ofFile('a node whose ledger is found damaged stops buying and selling, and says why', async () => {
  const buyer = await startTestNode({ key: generatePrivateKey() })
  const bootstrap = localAddress(buyer.addresses())
  const dir = await testDir()
  const flags = ['--name', 'echo', '--description', 'repeats', '--price', '0.01', '--model', 'builtin/echo']
  const node = await start(dir, ['--bootstrap', bootstrap, ...flags])
  const { id: agentId } = await discover(buyer, node.ready.peer_id, 'echo')
  ruinBehind(join(dir, 'stoa.db'))

  const answered = await until(async () => {
    const one = await ask(node, '/payments')
    return one.status === 503 ? one : undefined
  })
  expect(answered.body.code).toBe('STORE_DAMAGED')
  expect(node.log()).toContain('trading has stopped')
  expect((await ask(node, `/agents/${agentId}/execute`, { task: 'x' })).body.code).not.toBeUndefined()
  expect((await ask(node, '/orders', { agent_id: agentId, price: '0.01', task: 'x' })).body.code).toBe('STORE_DAMAGED')
  const bought = buyer.execute({ agentId, input: 'x', signal: AbortSignal.timeout(60_000) })
  await expect(bought).rejects.toMatchObject({
    code: 'OVERLOADED',
    message: expect.stringContaining('stopped selling'),
  })
  node.child.kill('SIGKILL')
})

test('T33 a node that meets another one with its identity on the market stops trading, says so, and stays shut', async () => {
  const key = generatePrivateKey()
  const at = (node: TestNode) => [localAddress(node.addresses())]
  const other = await startTestNode({ key: generatePrivateKey() })
  const agent = { name: 'echo', description: 'repeats', price: 10_000n, model: 'builtin/echo' }
  const node = await startTestNode({ key, bootstrap: at(other) })
  await node.registerAgent(agent, { persist: false })
  const listed = await discover(other, node.peerId, 'echo')

  // What the other one lists comes by way of any neighbor.
  const identity = await loadOrCreateIdentity(join(node.dataDir, 'identity.key'))
  const neighbor = await startTestHost({ identity: await createIdentity() })
  neighbor.subscribe(LISTINGS_TOPIC, async () => 'ignore')
  const where = { peerId: node.peerId, addrs: node.addresses() }
  await neighbor.openStream(where, '/ipfs/ping/1.0.0', AbortSignal.timeout(60_000))
  const versionHere = () => node.listings().find(({ id }) => id === listed.id)?.version ?? 0
  const list = async () => {
    const version = versionHere() + 1
    const record = listingRecord(node.peerId, 'echo', version, { price_atomic: 10_000n })
    const batch = encodeBatch([await signRecord(record, identity)])
    await until(async () => (await neighbor.publish(LISTINGS_TOPIC, batch)) > 0, { everyMs: 200 })
    return version
  }
  const first = await list()
  await until(() => versionHere() > first)
  // That may have been an earlier life of this node, which is silent by now.
  expect((await node.status()).trading).toEqual({ state: 'open' })
  await list()
  await until(async () => (await node.status()).trading?.state === 'stopped')
  expect(await node.status()).toMatchObject({
    trading: {
      code: 'LEDGER_COPIED',
      reason: expect.stringContaining('it listed echo with the same key'),
      fix: expect.stringContaining('stoa ledger adopt'),
    },
  })
  await until(async () => (await node.status()).alarms === 1)
  await neighbor.stop()
  await until(() => !other.listings().some(({ id }) => id === listed.id))

  const { id: agentId } = await other.registerAgent({ ...agent, name: 'other' }, { persist: false })
  await discover(node, other.peerId, 'other')
  const bought = node.execute({ agentId, input: 'x', signal: AbortSignal.timeout(60_000) })
  await expect(bought).rejects.toMatchObject({ code: 'LEDGER_COPIED' })
  await node.stop()
  await expect(startTestNode({ key, dataDir: node.dataDir })).rejects.toMatchObject({ code: 'LEDGER_COPIED' })
})

ofFile('T33 a node does not start on a copy of a directory that is still there, and says what to do', async () => {
  const dir = await testDir()
  await (await start(dir)).stop()
  const copy = join(await testDir(), 'copy')
  await cp(dir, copy, { recursive: true })
  await expect(start(copy)).rejects.toThrow(/is a copy of the one in .*, which is still there.* mv .*stoa\.db/s)
  await (await start(dir)).stop()
})

/** As a disk does that loses pages: all but the first. Another connection's write has the node read them anew. */
function ruinBehind(path: string): void {
  const other = new DatabaseSync(path)
  other.exec("PRAGMA busy_timeout = 5000; INSERT INTO kv VALUES ('other', 1); PRAGMA wal_checkpoint(TRUNCATE)")
  const descriptor = openSync(path, 'r+')
  for (let at = 4096; at < statSync(path).size; at += 4096) writeSync(descriptor, Buffer.alloc(512, 0xa5), 0, 512, at)
  closeSync(descriptor)
  other.close()
}
