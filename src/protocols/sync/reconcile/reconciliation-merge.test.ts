import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type ListingEntry, ListingSet } from '../../../listings/set.ts'
import { LISTING_TTL_MS, type ListingRecord } from '../../../schema/listing.ts'
import { type ElementKey, elementKey } from './element-key.ts'
import { RangeIndex } from './range-index.ts'
import { Reconciliation } from './reconciliation.ts'
import { createSessionHash } from './session-hash.ts'

const START = Date.UTC(2026, 0, 1)

type Draft = { seller: string; name: string; step: number; variant: number; state: ListingRecord['state'] }

function entryOf({ seller, name, step, variant, state }: Draft): ListingEntry {
  const version = START + step
  const about = { id: `${seller}/${name}`, seller_id: seller, name, state, version, updated_at: version }
  const record = { ...about, expires_at: version + LISTING_TTL_MS, description: `${variant}` } as ListingRecord
  return { record, hash: createHash('sha256').update(JSON.stringify(record)).digest('hex'), bytes: 100 }
}

const keyOf = ({ record, hash }: ListingEntry) => elementKey(record.updated_at, hash)
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

/** A replica as it is wired: each change of the set is one of the index. */
class Replica {
  readonly #set = new ListingSet({ listingsMax: 1000, bytesMax: 1_000_000, perSellerMax: 3 })
  readonly #index = new RangeIndex()
  readonly #entries = new Map<string, ListingEntry>()

  merge(entry: ListingEntry): void {
    const held = this.#set.get(entry.record.id)
    const { outcome, evicted } = this.#set.merge(entry, START)
    if (outcome !== 'added' && outcome !== 'replaced') return
    for (const gone of [outcome === 'replaced' ? held : undefined, evicted]) {
      if (gone === undefined) continue
      this.#index.delete(keyOf(gone))
      this.#entries.delete(hex(keyOf(gone)))
    }
    this.#index.add(keyOf(entry))
    this.#entries.set(hex(keyOf(entry)), entry)
  }

  view() {
    return this.#index.snapshot()
  }

  /** The entry of a key: undefined where a later one has taken its place. */
  entry(key: ElementKey): ListingEntry | undefined {
    return this.#entries.get(hex(key))
  }

  state(): string[] {
    const entries = [...this.#set.entries()]
    expect(this.#index.size).toBe(entries.length)
    expect(entries.every((entry) => this.#index.has(keyOf(entry)))).toBe(true)
    return entries.map((entry) => hex(keyOf(entry))).sort()
  }
}

/** Client and server reconcile; then the server sends what the client lacks, and the client what of its own still stands. */
function synchronize(client: Replica, server: Replica, lost: ReadonlySet<number> = new Set()): void {
  const salt = new Uint8Array(16)
  const names = createSessionHash(salt)
  const sides = [client, server].map((replica) => new Reconciliation(replica.view()))
  const have: ElementKey[][] = [[], []]
  const need: number[][] = [[], []]
  let message = sides[0]!.open({ salt })
  for (let turn = 1; ; turn = 1 - turn) {
    const step = sides[turn]!.receive(message)
    have[turn]!.push(...step.have)
    need[turn]!.push(...step.need)
    if (step.reply === undefined) break
    message = step.reply
  }
  for (const [from, into] of [
    [1, 0],
    [0, 1],
  ] as const) {
    expect(names.shortIds(Buffer.concat(have[from]!)).sort()).toEqual(need[into]!.sort())
    for (const [index, key] of have[from]!.entries()) {
      const entry = [client, server][from]!.entry(key)
      if (entry !== undefined && !lost.has(index)) [client, server][into]!.merge(entry)
    }
  }
}

const draft = fc.record({
  seller: fc.constantFrom('a', 'b', 'c', 'd'),
  name: fc.constantFrom('p', 'q', 'r', 's', 't'),
  step: fc.nat(6),
  variant: fc.nat(2),
  state: fc.constantFrom('active' as const, 'delisted' as const),
})
const entries = fc.array(draft.map(entryOf), { maxLength: 150, size: 'max' })

test('two replicas that reconcile and hand over what the other lacks hold the same (property)', () => {
  fc.assert(
    fc.property(entries, entries, (a, b) => {
      const [one, other, both] = [new Replica(), new Replica(), new Replica()]
      for (const entry of a) one.merge(entry)
      for (const entry of b) other.merge(entry)
      for (const entry of [...a, ...b]) both.merge(entry)
      synchronize(one, other)
      expect(one.state()).toEqual(both.state())
      expect(other.state()).toEqual(both.state())
    }),
  )
})

test('a partition of 3 and 3 heals to one state by reconciliation along a chain, even with losses (property)', () => {
  fc.assert(
    fc.property(entries, entries, fc.uniqueArray(fc.nat(5)), (left, right, lost) => {
      const replicas = Array.from({ length: 6 }, () => new Replica())
      const all = new Replica()
      for (const [side, list] of [left, right].entries()) {
        for (const [index, entry] of list.entries()) {
          replicas[3 * side + (index % 3)]!.merge(entry)
          all.merge(entry)
        }
      }
      // What is lost on the way once is found again in the next round.
      for (let hop = 0; hop < 5; hop++) synchronize(replicas[hop]!, replicas[hop + 1]!, new Set(lost))
      for (let round = 0; round < 2; round++) {
        for (let hop = 0; hop < 5; hop++) synchronize(replicas[hop]!, replicas[hop + 1]!)
        for (let hop = 4; hop >= 0; hop--) synchronize(replicas[hop]!, replicas[hop + 1]!)
      }
      for (const replica of replicas) expect(replica.state()).toEqual(all.state())
    }),
    { numRuns: 40 },
  )
})
