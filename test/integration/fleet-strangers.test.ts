/** T16: processes that do not belong to the seller whose ledger they are given. Its own go on. */
import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { loadOrCreateIdentity } from '../../src/p2p/identity.ts'
import { migrations } from '../../src/store/postgres/migrations.ts'
import {
  databaseOfNodes,
  startTestNode,
  stopTestNodes,
  type TestNodeOptions,
  testDir,
} from '../support/loopback-node.ts'

afterAll(stopTestNodes)

async function openShop() {
  const database = await databaseOfNodes()
  const admin = new pg.Client(database.address())
  await admin.connect()
  onTestFinished(() => admin.end())
  const key = generatePrivateKey()
  const settings = { key, databaseUrl: database.address() }
  const first = await startTestNode(settings)
  /** Another process with the same identity. */
  const start = async (changes: Partial<TestNodeOptions> = {}, identity: 'same' | 'another' | 'none' = 'same') => {
    const dataDir = await testDir()
    const path = join(dataDir, 'identity.key')
    if (identity === 'same') await copyFile(join(first.dataDir, 'identity.key'), path)
    if (identity === 'another') await loadOrCreateIdentity(path)
    return startTestNode({ ...settings, dataDir, ...changes })
  }
  const alive = async () =>
    Number((await admin.query('SELECT count(*) FROM processes WHERE ended_at IS NULL')).rows[0].count)
  return { admin, first, start, alive, account: privateKeyToAccount(key).address }
}

test('a process with another wallet, identity or network is refused with both values, and the seller goes on', async () => {
  const { first, start, alive, account } = await openShop()
  const key = generatePrivateKey()
  const refusals = [
    [() => start({ key }), account, privateKeyToAccount(key).address, 'wallet.key'],
    [() => start({}, 'another'), first.peerId, 'this node is 12D3', 'identity.key'],
    [() => start({}, 'none'), first.peerId, 'has no identity.key', 'identity.key'],
    [() => start({ network: 'eip155:8453' }), 'eip155:84532', 'eip155:8453', 'NODE_NETWORK=eip155:84532'],
  ] as const
  for (const [started, ...parts] of refusals) {
    const { code, message } = await started().then(
      () => ({ code: 'it started', message: '' }),
      (error: { code: string; message: string }) => error,
    )
    expect(code).toBe('LEDGER_OF_ANOTHER')
    for (const part of parts) expect(message).toContain(part)
  }
  expect([await alive(), (await first.status()).trading?.state]).toEqual([1, 'open'])
  const second = await start()
  expect([await alive(), (await second.status()).trading?.state]).toEqual([2, 'open'])
})

test('an older process is refused by a ledger that a newer one has changed, and those that run go on', async () => {
  const { admin, first, start, alive } = await openShop()
  const own = migrations.length
  await admin.query('UPDATE schema_version SET version = version + 1')
  await expect(start()).rejects.toMatchObject({
    code: 'STORE_NEWER',
    message: expect.stringMatching(`schema ${own + 1}, this one knows ${own}\\); upgrade stoa`),
  })
  expect([await alive(), (await first.status()).trading?.state]).toEqual([1, 'open'])
})
