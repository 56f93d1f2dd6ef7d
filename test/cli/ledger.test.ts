import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { silentLogger } from '../../src/lib/logger.ts'
import { writeMet } from '../../src/store/ledger-home.ts'
import { lockDataDir } from '../../src/store/lock.ts'
import { openLedger } from '../../src/store/open-ledger.ts'
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
