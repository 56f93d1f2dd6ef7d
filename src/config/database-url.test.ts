import { expect, test } from 'vitest'
import { DatabaseUrlText, databaseAddress, databaseSecrets } from './database-url.ts'
import { readEnv } from './env.ts'

test.each([
  ['postgres://stoa:pw@db.example/books', { host: 'db.example', port: 5432, database: 'books' }],
  [
    'postgresql://db.example:6543/stoa?sslmode=verify-full&user=u',
    { host: 'db.example', port: 6543, database: 'stoa' },
  ],
  [' postgres://u@[::1]:5433/a%20b\n', { host: '::1', port: 5433, database: 'a b' }],
  ['postgres:///stoa?host=/var/run/postgresql&user=u', { host: '/var/run/postgresql', port: 5432, database: 'stoa' }],
  ['postgres://u:p@%2Fvar%2Frun%2Fpostgresql/stoa', { host: '/var/run/postgresql', port: 5432, database: 'stoa' }],
  ['postgres://u:p@h/d?sslmode=require&channel_binding=require', { host: 'h', port: 5432, database: 'd' }],
])('%s names its database', (text, address) => {
  expect(databaseAddress(DatabaseUrlText.parse(text))).toEqual(address)
})

test.each([
  ['mysql://stoa:hunter2@db.example/stoa', 'the URL of a PostgreSQL database'],
  ['stoa:hunter2@db.example/stoa', 'the URL of a PostgreSQL database'],
  ['host=db.example dbname=stoa password=hunter2', 'the URL of a PostgreSQL database'],
  ['postgres:stoa?hunter2', 'the URL of a PostgreSQL database'],
  ['postgres://stoa:hunter2%@db.example/stoa', 'each % begins an escape'],
  ['postgres://stoa:hunter2/x@db.example/stoa', '/ as %2F'],
  ['postgres://stoa:12/hunter2@db.example/stoa', '/ as %2F'],
  ['postgres://stoa:hunter2#x@db.example/stoa', '# as %23'],
  ['postgres://stoa:1?hunter2@db.example/stoa?sslmode=require', '? as %3F'],
  ['postgres://stoa:hunter2@/stoa', 'the URL of a PostgreSQL database'],
  ['postgres:///stoa?password=hunter2', 'one host'],
  ['postgres://stoa:hunter2@one,two/stoa', 'one host'],
  ['postgres://db.example/stoa?password=hunter2', 'a user'],
  ['postgres://stoa:hunter2@db.example', 'the name of one database'],
  ['postgres://stoa:hunter2@db.example/', 'the name of one database'],
  ['postgres://stoa:hunter2@db.example/a/b', 'the name of one database'],
  ['postgres://stoa:hunter2@db.example:0/stoa', 'a port'],
  ['postgres://stoa:hunter2@db.example/stoa?sslmode=prefer', 'disable, require, verify-ca, verify-full, no-verify'],
  ['postgres://stoa:hunter2@db.example/stoa?sslmode=verify', 'disable, require, verify-ca, verify-full'],
  ['postgres://stoa:hunter2@db.example/stoa?sslmode=require&sslmode=disable', 'one sslmode'],
  ['postgres://stoa:hunter2@db.example/stoa?sslmod=require', 'one is nearly sslmode'],
  ['postgres://stoa:hunter2@db.example/stoa?SSLMODE=require', 'one is nearly sslmode'],
  ['postgres://stoa:hunter2@db.example/stoa?ssl_root_cert=/ca.pem', 'one is nearly sslrootcert'],
  ['postgres://stoa@db.example/stoa?password=x&hunter2', 'only known parameters'],
])('DATABASE_URL=%s is refused without its password (T21)', (text, expected) => {
  const refused = () => readEnv({ DATABASE_URL: text })
  expect(refused).toThrow(/^DATABASE_URL: the value is not valid: expected /)
  expect(refused).toThrow(expected)
  expect(refused).not.toThrow(/hunter2/)
})

test('the password is secret as it is written and as it is sent (T21)', () => {
  expect(databaseSecrets('postgres://u:hunter%402@h/d?password=other1')).toEqual([
    'postgres://u:hunter%402@h/d?password=other1',
    'hunter%402',
    'hunter@2',
    'other1',
  ])
})
