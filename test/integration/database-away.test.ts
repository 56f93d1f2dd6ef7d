/** What an operator is told by a node whose database is away. */
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { systemParts } from '../../src/cli/parts.ts'
import type { NodeStatus } from '../../src/schema/api.ts'
import type { Diagnosis } from '../../src/schema/diagnosis.ts'
import type { Fleet } from '../../src/schema/fleet.ts'
import { cli } from '../cli/harness.ts'
import { databaseOfNodes, startTestNode, stopTestNodes } from '../support/loopback-node.ts'
import { type Fate, startPostgresProxy } from '../support/postgres-proxy.ts'
import { testPostgres } from '../support/test-postgres.ts'
import { until } from '../support/until.ts'

afterAll(stopTestNodes)

test.each<Fate>(['cut', 'hold'])(
  'a node whose database is away (%s) says so, with what it knew, and that its ports are its own',
  async (fate) => {
    const { host, port } = await testPostgres()
    const proxy = await startPostgresProxy({ host, port })
    onTestFinished(() => proxy.close())
    const database = await databaseOfNodes()
    const node = await startTestNode({
      ...{ key: generatePrivateKey(), databaseUrl: database.address(proxy.port), apiEnabled: true, publicDht: false },
      announce: ['/ip4/9.9.9.9/tcp/4001'],
    })
    const ask = async <T>(...command: string[]) => {
      const { connect } = systemParts
      const run = await cli([...command, '--json'], { dataDir: node.dataDir, parts: { connect, fetch } })
      expect(run.stderr).toBe('')
      return JSON.parse(run.stdout) as T
    }
    type Shown = NodeStatus & { fleet: Fleet }
    const before = await until(async () => {
      const shown = await ask<Shown>('status')
      return shown.fleet.processes[0]?.state === 'ready' ? shown : undefined
    })
    expect(before.database).toBeUndefined()
    expect(before.market?.peer_id).not.toBe(before.peer_id)

    proxy.onMessage(() => fate)
    if (fate === 'cut') proxy.cut()
    const away = await ask<Shown>('status')
    expect(away).toMatchObject({
      ...{ peer_id: before.peer_id, settlement: before.settlement, database: { state: 'away' } },
      fleet: { database: { away: expect.any(String) }, processes: [{ place: before.fleet.processes[0]!.place }] },
    })
    const { stdout } = await cli(['status'], { dataDir: node.dataDir, parts: { connect: systemParts.connect } })
    expect(stdout).toMatch(/Database +away: /)
    // What others are given is the address that the operator announces, and not that of the market host.
    expect(stdout).toMatch(new RegExp(`Share +/ip4/9\\.9\\.9\\.9/tcp/4001/p2p/${before.peer_id} `))
    expect(stdout).toMatch(/is away\. Before/)
    const { checks } = await ask<Diagnosis>('doctor')
    const of = (id: string) => checks.find((check) => check.id === id)
    expect(of('node')).toMatchObject({ state: 'ok' })
    expect(of('database')).toMatchObject({ state: 'fail', fix: expect.stringContaining('goes on when') })
    expect([of('p2p_port'), of('api_port')]).toMatchObject([
      { state: 'ok', text: expect.stringContaining('in use by the running node') },
      { state: 'ok', text: expect.stringContaining('in use by the running node') },
    ])
    for (const id of ['processes', 'workers', 'settlement', 'failures']) {
      expect(of(id)).toMatchObject({ state: 'skip', text: expect.stringContaining('the database is away') })
    }

    proxy.onMessage(() => 'pass')
    proxy.cut()
    await until(async () => ((await ask<Shown>('status')).database === undefined ? true : undefined), {
      timeoutMs: 60_000,
    })
  },
)
