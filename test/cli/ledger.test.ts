import { mkdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { silentLogger } from '../../src/lib/logger.ts'
import { writeMet } from '../../src/store/ledger-home.ts'
import { lockDataDir } from '../../src/store/lock.ts'
import { openLedger } from '../../src/store/open-ledger.ts'
import { run } from '../../src/store/query.ts'
import { cli, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const open = () => openLedger(dataDir(), { logger: silentLogger })

/** A ledger of which a second node was met. */
async function metLedger(): Promise<void> {
  const database = await open()
  await writeMet(database, Date.UTC(2026, 0, 1))
  await database.close()
}

test('T33: stoa ledger adopt explains the risk, asks, and then lets a node start on the ledger', async () => {
  await metLedger()
  const options = { dataDir: dataDir(), tty: true }
  const refused = await cli(['ledger', 'adopt'], { ...options, stdin: 'no\n' })
  expect(refused.stderr).toMatch(
    /budgets do not count it.*may still be charged.*Is this true\? \(yes\/no\).*nothing was changed/s,
  )
  await expect(open()).rejects.toMatchObject({ code: 'LEDGER_COPIED' })

  expect(await cli(['ledger', 'adopt'], { ...options, stdin: 'yes\n' })).toMatchObject({ code: 0 })
  await (await open()).close()
  expect((await cli(['ledger', 'adopt'], options)).stdout).toContain('nothing to do')
})

test('T33: stoa ledger adopt asks no question with --yes, and requires --yes without a terminal', async () => {
  await metLedger()
  const options = { dataDir: dataDir() }
  expect(await cli(['ledger', 'adopt'], options)).toMatchObject({ code: 2, stderr: expect.stringContaining('--yes') })
  const { stdout } = await cli(['ledger', 'adopt', '--yes', '--json'], options)
  expect(JSON.parse(stdout)).toEqual({ adopted: true, data_dir: dataDir() })
})

test('stoa ledger adopt changes no ledger of a running node and no directory without a ledger', async () => {
  expect(await cli(['ledger', 'adopt', '--yes'], { dataDir: dataDir() })).toMatchObject({ code: 1 })
  await expect(stat(join(dataDir(), 'stoa.db'))).rejects.toThrow(/ENOENT/)
  await metLedger()
  const lock = lockDataDir(dataDir())
  const { stderr } = await cli(['ledger', 'adopt', '--yes'], { dataDir: dataDir() })
  lock.release()
  expect(stderr).toMatch(/another stoa .*uses/)
  await expect(open()).rejects.toMatchObject({ code: 'LEDGER_COPIED' })
})

const EXCHANGE = `
  INSERT INTO exchanges (agent_id, caller_id, correlation_id, input, created_at, duration_ms) VALUES ('a', 'b', 'c', 'd', 1, 2)`

test('stoa ledger copy copies a ledger, after which no node starts on the source until it is adopted', async () => {
  const [from, to] = [join(dataDir(), 'one'), join(dataDir(), 'two')]
  await mkdir(from)
  const source = await openLedger(from, { logger: silentLogger })
  await source.commit(run(EXCHANGE))
  await source.close()
  const copied = await cli(['ledger', 'copy', '--from', from, '--to', to], { dataDir: dataDir() })
  expect(copied).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^exchanges: 1\ncopied 1 rows from .*compared/),
  })
  const target = await openLedger(to, { logger: silentLogger })
  expect(target.all('SELECT input FROM exchanges')).toEqual([{ input: 'd' }])
  await target.close()
  await expect(openLedger(from, { logger: silentLogger })).rejects.toMatchObject({
    code: 'LEDGER_COPIED',
    message: expect.stringContaining(`was copied to ${to}`),
  })
  expect(await cli(['ledger', 'adopt', '--yes'], { dataDir: from })).toMatchObject({ code: 0 })
  await (await openLedger(from, { logger: silentLogger })).close()
  const again = await cli(['ledger', 'copy', '--from', from, '--to', to], { dataDir: dataDir() })
  expect(again).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/already holds a ledger \(exchanges\): .*start the node on the target/),
  })
})

test.each([
  [['--from', './nowhere', '--to', 'x.db'], 'there is no ledger in'],
  [['--from', 'postgres://u:hunter2hunter2@h/d', '--to', 'x.db'], 'read the password in a command line'],
  [['--from', 'env:STOA_NONE', '--to', 'x.db'], 'STOA_NONE is not set'],
  [['--from', 'env:STOA_URL', '--to', 'x.db'], 'STOA_URL: the value is not valid: expected the name of one database'],
  [['--from', './nowhere'], '--to is missing'],
])('stoa ledger copy %j is refused without a password in the answer (T21)', async (flags, message) => {
  const environment = { STOA_URL: 'postgres://u:hunter2hunter2@h' }
  const refused = await cli(['ledger', 'copy', ...flags], { dataDir: dataDir(), environment })
  expect(refused.code).toBeGreaterThan(0)
  expect(refused.stderr).toContain(message)
  expect(refused.stderr).not.toContain('hunter2')
})

test('stoa ledger copy refuses a ledger in use', async () => {
  const source = await open()
  const lock = lockDataDir(dataDir())
  const argv = ['ledger', 'copy', '--from', dataDir(), '--to', join(dataDir(), 'copy.db')]
  expect(await cli(argv, { dataDir: dataDir() })).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('another stoa'),
  })
  lock.release()
  expect(await cli(argv, { dataDir: dataDir() })).toMatchObject({ code: 1, stderr: expect.stringContaining('has') })
  await source.close()
})
