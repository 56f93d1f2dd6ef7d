/**
 * Measures the cost for two replicas to find their differences, beside the floors of the same run.
 *
 * - ours: both sides in this process, over prepared indices, with messages in wire format
 * - floors: sorting the set once; hashing each listing once; sending all listings, as without reconciliation
 *
 * `node --expose-gc bench/reconcile.ts` measures the memory too.
 */
import { hash, randomBytes } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { decodeBatch, encodeBatch, splitBatches } from '../src/protocols/sync/batch.ts'
import { readFlags } from './flags.ts'
import { casesOf, madeKeys } from './reconcile/cases.ts'
import {
  measureCase,
  measureEndless,
  measureIndex,
  measureWorstMessage,
  sortAndPack,
  timed,
} from './reconcile/measure.ts'
import { median } from './statistics.ts'
import { aligned } from './table.ts'

const values = readFlags({
  listings: { type: 'string', default: '100000' },
  rounds: { type: 'string', default: '9' },
  json: { type: 'boolean', default: false },
})
const count = Number(values.listings)
const rounds = Number(values.rounds)
/** Bytes of a listing's envelope with a description of a few sentences: see bench/replica. */
const ENVELOPE_BYTES = 700

const keys = madeKeys(count)
const index = await measureIndex(
  keys,
  madeKeys(count * 3)
    .filter((_, at) => at % 3 === 1)
    .slice(0, 20_000),
)
const rows = [0, 1, 10, 100, 1000, 10_000]
  .filter((differences) => differences < count)
  .flatMap((differences) => casesOf(keys, differences))
  .map((one) => ({ name: one.name, differences: one.differences, ...measureCase(one, rounds) }))
const floors = measureFloors()
const goals = goalsOf()

if (values.json) {
  process.stdout.write(`${JSON.stringify({ count, rounds, index, floors, rows, goals }, undefined, 2)}\n`)
} else {
  process.stdout.write(`${reportLines().join('\n')}\n`)
}

function measureFloors() {
  const envelopes = keys.map(() => randomBytes(ENVELOPE_BYTES))
  const batches = [...splitBatches(envelopes, { itemsMax: count, bytesMax: 1024 * 1024 })]
  const times = (work: () => void) => median(Array.from({ length: 3 }, () => timed(work)))
  return {
    sortMs: times(() => sortAndPack(keys)),
    hashMs: times(() => {
      for (const envelope of envelopes) hash('sha256', envelope, 'buffer')
    }),
    transferBytes: batches.reduce((bytes, batch) => bytes + encodeBatch(batch).length, 0),
    transferMs: times(() => {
      for (const batch of batches) decodeBatch(encodeBatch(batch), { itemsMax: count, itemBytesMax: ENVELOPE_BYTES })
    }),
    worstMessageMs: median(Array.from({ length: rounds }, () => measureWorstMessage(keys))),
    endless: measureEndless(keys),
  }
}

function goalsOf() {
  const of = (name: string) => rows.find((row) => row.name === name && row.differences === 10)
  const changed = of('missed changes of any')
  const newest = of('missed the newest')
  if (changed === undefined || newest === undefined) return []
  const goal = (name: string, value: number, limit: number, unit: string) => {
    return { name, value, limit, unit, met: value <= limit }
  }
  const bytes = changed.toServerBytes + changed.toClientBytes
  return [
    goal('10 changes anywhere, both ways', bytes, 20_000, 'bytes'),
    goal('10 changes anywhere, both ways, their listings included', bytes + 10 * ENVELOPE_BYTES, 20_000, 'bytes'),
    goal('10 changes anywhere, both sides', changed.cpuMs, 100, 'ms'),
    goal('the newest 10, both ways', newest.toServerBytes + newest.toClientBytes, 1000, 'bytes'),
  ]
}

function reportLines(): string[] {
  const ms = (value: number) => value.toFixed(1)
  const head = ['', 'differ', 'to server', 'to client', 'messages', 'client ms', 'server ms', 'process ms']
  const table = rows.map((row) => [
    row.name,
    String(row.differences),
    size(row.toServerBytes),
    size(row.toClientBytes),
    String(row.messages),
    ms(row.clientMs),
    ms(row.serverMs),
    ms(row.cpuMs),
  ])
  const perElement = index.bytesPerElement === undefined ? 'run with --expose-gc' : index.bytesPerElement.toFixed(1)
  return [
    `${count} listings on each side, means of ${rounds} rounds or more, times are CPU times, Node ${process.version}, ${availableParallelism()} CPUs`,
    '',
    ...aligned([head, ...table]),
    '',
    `floor, to sort the set once: ${ms(floors.sortMs)} ms`,
    `floor, to hash each listing once (SHA-256 of ${ENVELOPE_BYTES} bytes): ${ms(floors.hashMs)} ms`,
    `floor, to hand over all of it: ${size(floors.transferBytes)}, ${ms(floors.transferMs)} ms without a signature`,
    `index, from keys in any order: ${ms(index.buildMs)} ms; bytes an element: ${perElement}`,
    `index, µs: add ${ms(index.addMicros)}, delete ${ms(index.deleteMicros)}, sum of any range ${ms(index.sumOfRangeMicros)}, of all ${ms(index.sumOfAllMicros)}`,
    `the longest a hostile message keeps the event loop: ${ms(floors.worstMessageMs)} ms`,
    `a peer that asks without end, until it is cut off: ${ms(floors.endless.ms)} ms, ${size(floors.endless.bytes)}`,
    '',
    ...goals.map(({ name, value, limit, unit, met }) => {
      return `${met ? 'met   ' : 'missed'}  ${name}: ${Math.round(value)} ${unit} (goal: at most ${limit})`
    }),
  ]
}

function size(bytes: number): string {
  return bytes < 10_000
    ? `${bytes} B`
    : bytes < 10_000_000
      ? `${Math.round(bytes / 1000)} kB`
      : `${Math.round(bytes / 1e6)} MB`
}
