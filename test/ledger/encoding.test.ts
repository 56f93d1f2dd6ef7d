import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { inspectServerLedger } from '../../src/store/postgres/inspect-postgres.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { testPostgres } from '../support/test-postgres.ts'

test('refuses a database whose encoding lacks characters, and says how to make one', async () => {
  const { host, port, user, password } = await testPostgres()
  const admin = new pg.Client({ host, port, user, password, database: 'postgres' })
  await admin.connect()
  const name = `latin_${process.pid}_${Date.now()}`
  await admin.query(`CREATE DATABASE ${name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`)
  onTestFinished(async () => {
    await admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
    await admin.end()
  })
  const address = `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/${name}`
  const refused = { code: 'STORE_UNREADABLE', message: expect.stringMatching(/LATIN1.*ENCODING 'UTF8'/) }
  await expect(openPostgres({ address })).rejects.toMatchObject(refused)
  await expect(inspectServerLedger(address)).rejects.toMatchObject(refused)
})
