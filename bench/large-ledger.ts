/**
 * Measures how the queries of a node grow with the payments that its ledger keeps.
 *
 * Fills a ledger as a node would have after so many sales, one each 3 s: most settled, few open, exchanges of 30 days, one
 * purchase for four sales. Then asks for everything that a node asks for regularly, by its stores. Prints the
 * milliseconds at each size, and how much slower the largest is than the smallest.
 *
 * `node bench/large-ledger.ts --engine postgres --payments 10000,1000000,10000000` needs 25 GB and half an hour.
 */
import { readFlags } from './flags.ts'
import { postgresEngine, sqliteEngine } from './large-ledger/engines.ts'
import { fill } from './large-ledger/fill.ts'
import { queriesOf } from './large-ledger/queries.ts'
import { aligned } from './table.ts'

const values = readFlags({
  engine: { type: 'string', default: 'sqlite' },
  /** Sizes, rising, separated by commas. */
  payments: { type: 'string', default: '10000,1000000' },
  /** Only queries whose name holds this text. */
  only: { type: 'string', default: '' },
  json: { type: 'boolean', default: false },
})
const sizes = values.payments.split(',').map(Number)
/** A query that takes longer is asked once. */
const LONG_MS = 2_000
const TRIES = 7

type Row = { when: string; name: string; ms: number[] }

const note = (text: string) => process.stderr.write(`${text}\n`)
const engine = await (values.engine === 'postgres' ? postgresEngine() : sqliteEngine())
const rows = new Map<string, Row>()
try {
  let filled = 0
  for (const size of sizes) {
    const from = performance.now()
    await fill(engine, filled, size)
    filled = size
    note(`${engine.name}: ${size} payments, filled in ${Math.round((performance.now() - from) / 1000)} s`)
    await measureAll(size)
  }
} finally {
  await engine.remove()
}
if (values.json) process.stdout.write(`${JSON.stringify([...rows.values()], undefined, 2)}\n`)
else process.stdout.write(`${report().join('\n')}\n`)

async function measureAll(size: number): Promise<void> {
  const ledger = await engine.open()
  try {
    for (const { when, name, run } of await queriesOf(ledger, size)) {
      if (!name.includes(values.only)) continue
      const ms = await measure(run)
      note(`  ${name}: ${ms.toFixed(1)} ms`)
      const row = rows.get(name) ?? { when, name, ms: [] }
      row.ms.push(ms)
      rows.set(name, row)
    }
  } finally {
    await ledger.close()
  }
}

/** The fastest: other work on the machine makes a query slower, and never faster. */
async function measure(run: () => Promise<unknown>): Promise<number> {
  let fastest = Number.POSITIVE_INFINITY
  for (let turn = 0; turn < TRIES; turn++) {
    const from = performance.now()
    await run()
    fastest = Math.min(fastest, performance.now() - from)
    if (fastest > LONG_MS) break
  }
  return fastest
}

function report(): string[] {
  const head = [`${engine.name}, ms`, '', ...sizes.map((size) => String(size)), 'ratio']
  const lines = [...rows.values()].map(({ when, name, ms }) => [
    name,
    when,
    ...ms.map((each) => each.toFixed(each < 10 ? 2 : 0)),
    (ms.at(-1)! / ms[0]!).toFixed(1),
  ])
  return aligned([head, ...lines])
}
