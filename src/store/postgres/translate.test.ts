import { expect, test } from 'vitest'
import { LAST_EXCHANGE, LAST_PAYMENT, NEXT_EXCHANGE } from '../new-ids.ts'
import { translate } from './translate.ts'

const cases: [string, string][] = [
  ['SELECT a FROM t WHERE b = ? AND c = ?', 'SELECT a FROM t WHERE b = $1 AND c = $2'],
  ['SELECT ?2, ?1, ?2', 'SELECT $2, $1, $2'],
  ["SELECT '?', 'it''s ?', \"a?\" FROM t -- why?\n WHERE x = ?", "SELECT '?', 'it''s ?', \"a?\" FROM t WHERE x = $1"],
  ['INSERT OR FAIL INTO t VALUES (?)', 'INSERT INTO t VALUES ($1)'],
  ['SELECT a FROM t INDEXED BY t_by_a WHERE a = ?', 'SELECT a FROM t WHERE a = $1'],
  ['SELECT a AS theName FROM t ORDER BY theName', 'SELECT a AS "theName" FROM t ORDER BY "theName"'],
  ['SELECT lower(hex(t.a)) AS h, hex(b) FROM t', "SELECT encode(t.a, 'hex') AS h, upper(encode(b, 'hex')) FROM t"],
  ['SELECT lower(hex(coalesce(a, b)))', "SELECT encode(coalesce(a, b), 'hex')"],
  ['SELECT CAST(a AS INTEGER)', 'SELECT CAST(a AS bigint)'],
  ["SELECT x'0a'", "SELECT '\\x0a'::bytea"],
  ['SELECT substr(a, 1, ?), length(?)', 'SELECT substr(a, 1, CAST($1 AS int)), length($2)'],
  [`SELECT ${NEXT_EXCHANGE}, ?`, "SELECT nextval('exchanges_id_seq'), $1"],
  [`SELECT ${LAST_EXCHANGE}, ${LAST_PAYMENT}`, "SELECT currval('exchanges_id_seq'), currval('payments_no_seq')"],
  ['SELECT substr(a, 1, length(?1)) = ?1', 'SELECT substr(a, 1, length($1)) = $1'],
]

test.each(cases)('%s', (sql, text) => {
  expect(translate(sql).text).toBe(text)
})

test('a statement that changes something is told from one that reads', () => {
  const reads = ['SELECT 1', ' (SELECT 1)', 'VALUES (1)', 'WITH a AS (SELECT 1) SELECT * FROM a']
  const writes = ['INSERT INTO t VALUES (1)', 'DELETE FROM t', 'WITH a AS (DELETE FROM t RETURNING 1) SELECT * FROM a']
  expect(reads.map((sql) => translate(sql).reads)).toEqual([true, true, true, true])
  expect(writes.map((sql) => translate(sql).reads)).toEqual([false, false, false])
})
