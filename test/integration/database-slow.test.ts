/** What an operator is told by a node whose database answers slowly, or does not take changes. */
import pg from 'pg'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { systemParts } from '../../src/cli/parts.ts'
import type { AlarmRecord } from '../../src/schema/alarm.ts'
import type { NodeStatus } from '../../src/schema/api.ts'
import type { Diagnosis } from '../../src/schema/diagnosis.ts'
import { cli } from '../cli/harness.ts'
import { startTestNode, stopTestNodes } from '../support/loopback-node.ts'
import { startPostgresProxy } from '../support/postgres-proxy.ts'
import { createTestDatabase, testPostgres } from '../support/test-postgres.ts'

afterAll(stopTestNodes)

async function slowNode() {
  const { host, port } = await testPostgres()
  const proxy = await startPostgresProxy({ host, port })
  onTestFinished(() => proxy.close())
  const database = await createTestDatabase()
  onTestFinished(() => database.drop())
  const node = await startTestNode({
    ...{ key: generatePrivateKey(), databaseUrl: database.address(proxy.port), apiEnabled: true, publicDht: false },
  })
  // While its database is there and fast.
  onTestFinished(async () => {
    proxy.slow(0)
    await node.stop()
  })
  const say = (...command: string[]) =>
    cli(command, { dataDir: node.dataDir, parts: { connect: systemParts.connect, fetch } })
  const ask = async <T>(...command: string[]) => JSON.parse((await say(...command, '--json')).stdout) as T
  const checks = async () => {
    const { checks } = await ask<Diagnosis>('doctor')
    return (id: string) => checks.find((check) => check.id === id)
  }
  return { node, proxy, database, say, ask, checks }
}

test('a database that answers slowly is told as slow, and processes, ledger and workers are still checked', async () => {
  const { proxy, checks } = await slowNode()
  proxy.slow(500)
  const of = await checks()
  expect(of('database')).toMatchObject({
    text: expect.stringMatching(/ answers in \d{3,} ms.* is slow/),
    fix: expect.stringContaining('near the database'),
  })
  expect([of('ledger'), of('processes'), of('workers')]).toMatchObject([
    { state: 'ok', text: expect.stringContaining('undamaged') },
    { state: 'ok', text: expect.stringContaining('alone uses the ledger') },
    { state: 'skip', text: 'none have joined' },
  ])
})

test('a change that the database could not write is told by status, alarms, metrics and doctor', async () => {
  const { node, database, say, ask, checks } = await slowNode()
  const metric = async () =>
    (await (await fetch(`${node.apiUrl}/metrics`)).text()).match(/^stoa_database_refuses (.)/m)?.[1]
  expect(await ask('alarms', 'list')).not.toContainEqual(expect.objectContaining({ kind: 'change_refused' }))
  expect(await metric()).toBe('0')

  // PostgreSQL says this of a full disk. Tokens need a new row; signs of life do not.
  const admin = new pg.Client(database.address())
  await admin.connect()
  await admin.query(`
    CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no space left' USING ERRCODE = '53100'; END $$;
    CREATE TRIGGER full_disk BEFORE INSERT ON tokens FOR EACH ROW EXECUTE FUNCTION full_disk()`)
  await admin.end()
  const token = ['token', 'create', '--name', 'assistant', '--scope', 'read'] as const
  expect((await say(...token)).stderr).toContain('full disk')

  expect(await ask<NodeStatus>('status')).toMatchObject({ refused_change: expect.stringContaining('full disk') })
  expect((await say('status')).stdout).toMatch(/Changes +refused within the last minute: .*full disk/)
  const [alarm] = await ask<AlarmRecord[]>('alarms', 'list')
  expect(alarm).toMatchObject({ kind: 'change_refused', severity: 'bad' })
  expect(await metric()).toBe('1')
  expect((await checks())('database')).toMatchObject({ state: 'fail', text: expect.stringContaining('full disk') })
  // What is not stored can be dismissed while other changes are still taken.
  expect((await say('alarms', 'dismiss', 'change_refused')).code).toBe(0)
  expect(await ask('alarms', 'list')).not.toContainEqual(expect.objectContaining({ kind: 'change_refused' }))
})
