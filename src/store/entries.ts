import { one, type Query, run } from './query.ts'

/*
 * Named texts of a ledger, such as its id: the table `kv`. A store of listings has the same table, and runs the statements by
 * itself.
 */

export const GET_ENTRY = 'SELECT value FROM kv WHERE key = ?'
export const PUT_ENTRY =
  'INSERT INTO kv (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value'
export const REMOVE_ENTRY = 'DELETE FROM kv WHERE key = ?'
const ADD_ENTRY = 'INSERT INTO kv (key, value) VALUES (?, ?) ON CONFLICT (key) DO NOTHING'

/** The text that `GET_ENTRY` answers with. */
export type Entry = { value: string }

export function entry(key: string): Query<string | undefined> {
  return one<Entry>(GET_ENTRY, key).map((row) => row?.value)
}

/** Sets a text, whatever it was before. */
export function putEntry(key: string, value: string): Query<number> {
  return run(PUT_ENTRY, key, value)
}

/** Sets a text where there is none. */
export function addEntry(key: string, value: string): Query<number> {
  return run(ADD_ENTRY, key, value)
}

export function removeEntry(key: string): Query<number> {
  return run(REMOVE_ENTRY, key)
}
