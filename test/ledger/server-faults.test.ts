/** A PostgreSQL that crashes, has a full disk, or asks for TLS. */
import { spawnSync } from 'node:child_process'
import { chownSync, mkdtempSync, rmSync, statfsSync, unlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { all, one, run, steps } from '../../src/store/query.ts'
import { type PostgresServer, type ServerOptions, startPostgres } from '../support/postgres-server.ts'
import { testCertificate } from '../support/test-certificate.ts'

const put = (key: string) => run('INSERT INTO added (name) VALUES (?)', key)
const stepped = (key: string) =>
  steps(function* () {
    yield* one('SELECT count(*) AS n FROM added')
    return yield* put(key)
  })

test('a server that is killed in the middle of commits, again and again, loses and doubles nothing', async () => {
  const server = await start()
  const ledger = await open(server.address('postgres'))
  await ledger.commit(run('CREATE TABLE added (name TEXT)'))
  const outcomes: [string, Promise<unknown>][] = []
  for (let round = 0; round < 4; round += 1) {
    const names = Array.from({ length: 40 }, (_, index) => `${round}-${index}`)
    // Each begins when the one before it has ended: some while the server dies, some while it is away.
    let before: Promise<unknown> = Promise.resolve()
    for (const [index, name] of names.entries()) {
      before = before.then(() => ledger.commit(index % 3 === 0 ? stepped(name) : put(name)))
      before.catch(() => {})
      outcomes.push([name, before])
      before = before.catch(() => {})
      if (index === 10 * round) before.then(() => server.kill()).then(() => server.start())
    }
    await before
  }
  const settled = await Promise.allSettled(outcomes.map(([, promise]) => promise))
  const counts = await ledger.query(
    all<{ name: string; n: number }>('SELECT name, count(*) AS n FROM added GROUP BY name'),
  )
  const rows = new Map(counts.map(({ name, n }) => [name, n]))
  for (const [index, { status }] of settled.entries()) {
    const name = outcomes[index]![0]
    // Nothing waited too long: what failed was written, but its answer was lost.
    expect({ name, status, n: rows.get(name) }).toEqual({ name, status, n: 1 })
  }
})

test('a full disk refuses a change, says so, and takes changes again when there is room', async (context) => {
  const disk = mountDisk()
  if (disk === undefined) return context.skip('only root can make a disk that is full')
  const server = await start()
  const ledger = await open(server.address('postgres'))
  chownSync(disk, 65_534, 65_534)
  // Of the ledger's own tables: the rest of the server has room.
  const own = await import('pg').then(({ Client }) => new Client({ ...server, database: 'postgres' }))
  await own.connect()
  await own.query(`CREATE TABLESPACE small LOCATION '${disk}'`)
  await own.end()
  await ledger.commit(run('CREATE TABLE added (name TEXT) TABLESPACE small'))
  await ledger.commit(put('first'))
  const filler = join(disk, 'filler')
  const { bsize, bavail } = statfsSync(disk)
  writeFileSync(filler, Buffer.alloc(bsize * (bavail - 4)))
  const large = Array.from({ length: 40_000 }, () => Math.random().toString(36)).join('')
  const refused = { code: 'STORE_WRITE_FAILED', message: expect.stringContaining('full disk') }
  const outcomes = await Promise.allSettled([ledger.commit(put(large)), ledger.commit(put('small'))])
  expect(outcomes[0]).toMatchObject({ status: 'rejected', reason: refused })
  expect(outcomes[1]).toMatchObject({ status: 'fulfilled' })
  unlinkSync(filler)
  await ledger.commit(put(large))
  expect(await ledger.query(one('SELECT count(*) AS n FROM added'))).toEqual({ n: 3 })
})

test('TLS is used as the address says, and a certificate of nobody known is refused', async () => {
  const server = await start({
    settings: { ssl: 'on' },
    files: { 'server.crt': testCertificate.cert, 'server.key': testCertificate.key },
  })
  const dir = mkdtempSync(join(tmpdir(), 'stoa-tls-'))
  onTestFinished(() => rmSync(dir, { recursive: true }))
  const path = join(dir, 'ca.pem')
  writeFileSync(path, testCertificate.cert)
  const address = server.address('postgres')
  const encrypted = 'SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()'
  for (const [parameters, ssl] of [
    ['sslmode=disable', 0],
    [`sslmode=require&sslrootcert=${path}`, 1],
    [`sslmode=verify-ca&sslrootcert=${path}`, 1],
    [`sslmode=verify-full&sslrootcert=${path}`, 1],
  ] as const) {
    const ledger = await openPostgres({ address: `${address}?${parameters}` })
    expect(await ledger.query(one(encrypted))).toEqual({ ssl })
    await ledger.close()
  }
  const untrusted = { code: 'STORE_UNREADABLE', message: expect.stringContaining('sslrootcert') }
  await expect(openPostgres({ address: `${address}?sslmode=verify-full` })).rejects.toMatchObject(untrusted)
  await expect(openPostgres({ address: `${address}?sslmode=require` })).rejects.toMatchObject(untrusted)
})

test('a server without TLS is refused if the address asks for it', async () => {
  const server = await start()
  const refused = { code: 'STORE_UNREADABLE', message: expect.stringContaining('sslmode=disable') }
  await expect(openPostgres({ address: `${server.address('postgres')}?sslmode=require` })).rejects.toMatchObject(
    refused,
  )
})

async function start(options?: ServerOptions): Promise<PostgresServer> {
  const server = await startPostgres(options)
  onTestFinished(() => server.stop())
  return server
}

async function open(address: string): Promise<LedgerDatabase> {
  const ledger = await openPostgres({ address, waitMs: 60_000, connectMs: 20_000 })
  onTestFinished(() => ledger.close())
  return ledger
}

/** A disk of 8 MB. */
function mountDisk(): string | undefined {
  if (process.getuid?.() !== 0 || process.platform !== 'linux') return undefined
  const dir = mkdtempSync(join('/tmp', 'stoa-disk-'))
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=8m,mode=0700', 'tmpfs', dir]).status === 0
  onTestFinished(() => {
    if (mounted) spawnSync('umount', ['-l', dir])
    rmSync(dir, { recursive: true, force: true })
  })
  return mounted ? dir : undefined
}
