import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { readSettings } from './settings.ts'

test('an address names host, port, user, database and password, and nothing shows the password (T21)', () => {
  const settings = readSettings(
    'postgresql://st%40a:p%25ss%20word@[::1]:6543/the%20ledger?options=-c%20search_path%3Dstoa',
  )
  expect(settings).toMatchObject({
    host: '::1',
    port: 6543,
    user: 'st@a',
    database: 'the ledger',
    options: '-c search_path=stoa',
    tls: false,
    name: 'the database "the ledger" of st@a at ::1:6543',
  })
  expect(settings.password).toBe('p%ss word')
  expect(inspect(settings) + JSON.stringify(settings)).not.toContain('ss word')
})

test('what is not said is as PostgreSQL has it', () => {
  expect(readSettings('postgres://stoa@db')).toMatchObject({ port: 5432, database: 'stoa', password: undefined })
  const socket = readSettings('postgres:///stoa?host=/run/postgresql&user=stoa')
  expect(socket).toMatchObject({ host: '/run/postgresql', tls: false })
})

test('TLS is used if it is asked for, and the certificate is looked at', () => {
  expect(readSettings('postgres://a@db/a?sslmode=disable').tls).toBe(false)
  expect(readSettings('postgres://a@db/a?sslmode=require').tls).toEqual({ host: 'db', rejectUnauthorized: true })
  expect(readSettings('postgres://a@db/a?sslmode=no-verify').tls).toEqual({ host: 'db', rejectUnauthorized: false })
})

test.each([
  'nothing',
  'mysql://stoa:hunter2@db/stoa',
  'postgres://:hunter2@db/stoa',
  'postgres://stoa:hunter2%@db/stoa',
  'postgres://stoa:hunter2@db/stoa?sslmode=prefer',
  'postgres://stoa:hunter2@db/stoa?sslmode=require&sslrootcert=/nowhere',
])('%s is refused without its password (T21)', (address) => {
  expect(() => readSettings(address)).toThrow(
    expect.objectContaining({ code: 'STORE_UNREADABLE', message: expect.not.stringContaining('hunter2') }),
  )
})
