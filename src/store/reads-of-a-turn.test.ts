import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openDatabase } from './database.ts'
import { all, one, run } from './query.ts'
import { readsOfATurn } from './reads-of-a-turn.ts'

const scratch = () => openDatabase({ path: join(mkdtempSync(join(tmpdir(), 'stoa-store-')), 'stoa.db') })
const kept = (key: string) => one<{ value: string }>('SELECT value FROM kv WHERE key = ?', key)
const put = (key: string, value: string) => run('INSERT INTO kv (key, value) VALUES (?, ?)', key, value)

test('reads of one turn share a transaction, and one that fails takes no other with it', async () => {
  const database = scratch()
  await database.commit(put('a', '1'))
  const read = await Promise.allSettled([
    database.query(kept('a')),
    database.query(all('SELECT * FROM nothing')),
    database.query(kept('b')),
  ])
  expect(read.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect(read[0]).toMatchObject({ value: { value: '1' } })
  await database.commit(put('b', '2'))
  expect(await database.query(kept('b'))).toEqual({ value: '2' })
  await database.close()
})

test('a read that waits when the database is closed is answered', async () => {
  const database = scratch()
  await database.commit(put('a', '1'))
  const read = Promise.all([database.query(kept('a')), database.query(kept('b'))])
  await database.close()
  expect(await read).toEqual([{ value: '1' }, undefined])
})

test('many reads begin and end one transaction, and one read none', async () => {
  const ran: string[] = []
  const { read } = readsOfATurn({ exec: (sql) => void ran.push(sql), isBegun: () => ran.at(-1) !== 'END' })
  expect(await read(() => 1)).toBe(1)
  expect(ran).toEqual([])
  expect(await Promise.all([read(() => ran.length), read(() => ran.length)])).toEqual([1, 1])
  expect(ran).toEqual(['BEGIN', 'END'])
})

test('reads go on by themselves where no transaction begins, and one that cannot end is rolled back', async () => {
  const refusing = readsOfATurn({
    exec: () => {
      throw new Error('refused')
    },
    isBegun: () => false,
  })
  expect(await Promise.all([refusing.read(() => 1), refusing.read(() => 2)])).toEqual([1, 2])
  const ran: string[] = []
  const stuck = readsOfATurn({
    exec: (sql) => {
      ran.push(sql)
      if (sql === 'END') throw new Error('refused')
    },
    isBegun: () => ran.at(-1) !== 'ROLLBACK',
  })
  expect(await Promise.all([stuck.read(() => 1), stuck.read(() => 2)])).toEqual([1, 2])
  expect(ran).toEqual(['BEGIN', 'END', 'ROLLBACK'])
})
