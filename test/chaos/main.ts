/**
 * `npm run chaos`: runs a market of real processes under faults, and the chain judges the outcome. See CONTRIBUTING.md.
 */
import { parseArgs } from 'node:util'
import { runFleet } from './fleet.ts'
import { type Report, runChaos } from './run.ts'

const HELP = `Runs a market of real processes under faults that a seed decides, and compares the chain with all books.

Usage: npm run chaos -- [options]

  --seed <n>       one run with this seed (default: 1)
  --seeds <a..b>   a run with each of these
  --minutes <n>    how long faults happen in each run (default: 5); with --fleet, runs follow each other for so long
  --fleet          instead: three processes of a seller and three of a buyer, each side on one ledger in PostgreSQL,
                   64 calls at once; processes and database are killed, connections cut, commits refused
  --keep           leave data directories and logs where they are after a broken rule
  --help           print this
`

async function main(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      seed: { type: 'string' },
      seeds: { type: 'string' },
      minutes: { type: 'string' },
      keep: { type: 'boolean' },
      fleet: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.help === true) {
    process.stdout.write(HELP)
    return 0
  }
  const [first, last = first] = (values.seeds ?? values.seed ?? '1').split('..').map(Number) as [number, number?]
  const durationMs = Number(values.minutes ?? 5) * 60_000
  if (!Number.isSafeInteger(first) || !Number.isSafeInteger(last) || !(durationMs >= 10_000)) {
    process.stderr.write(HELP)
    return 2
  }
  if (values.fleet === true) {
    return fleets({ first, last: last!, untilMs: values.minutes === undefined ? 0 : performance.now() + durationMs })
  }
  const settleMs = durationMs < 60_000 ? 60_000 : 240_000
  const reports: Report[] = []
  for (let seed = first; seed <= last!; seed++) {
    tell(`seed ${seed}`)
    const report = await runChaos({ seed, durationMs, settleMs, tell, isKept: values.keep === true })
    for (const { rule, what } of report.violations) tell(`BROKEN: ${rule}: ${what}`)
    reports.push(report)
  }
  tell('')
  tell(row('seed', 'faults', 'wishes', 'orders', 'delivered', 'charged', 'free', 'in doubt', 'broken'))
  for (const { seed, faults, wishes, sums, violations } of reports) {
    const { bought, delivered, charged, free, inDoubt } = sums
    tell(row(seed, faults, wishes, bought, delivered, charged, free, inDoubt, violations.length))
  }
  return reports.some(({ violations }) => violations.length > 0) ? 1 : 0
}

/** A run with each seed. While there is time, runs with the seeds after the last follow. */
async function fleets(runs: { first: number; last: number; untilMs: number }): Promise<number> {
  let code = 0
  for (let seed = runs.first; seed <= runs.last || performance.now() < runs.untilMs; seed += 1) {
    tell(`seed ${seed}`)
    code = Math.max(code, await fleet(seed))
  }
  return code
}

async function fleet(seed: number): Promise<number> {
  const report = await runFleet({
    seed,
    ...{ sellers: 3, buyers: 3, calls: 400, atOnce: 64, affordable: 320 },
    ...{ sellerKills: 2, buyerKills: 1, pauseMs: 2_000, databaseKills: 1, cuts: 12, refusedShare: 0.03 },
    tell,
  })
  for (const { rule, what } of report.violations) tell(`BROKEN: ${rule}: ${what}`)
  const { bought, delivered, charged, free, inDoubt } = report.sums
  tell('')
  tell(row('seconds', 'kills', 'cuts', 'refused', 'orders', 'delivered', 'charged', 'free', 'in doubt', 'broken'))
  const { seconds, kills, cuts, refused, violations } = report
  tell(row(seconds, kills, cuts, refused, bought, delivered, charged, free, inDoubt, violations.length))
  return violations.length > 0 ? 1 : 0
}

function tell(line: string): void {
  process.stdout.write(`${line}\n`)
}

function row(...cells: (string | number)[]): string {
  return cells.map((cell) => String(cell).padStart(9)).join(' ')
}

// A proxy fails when its client is killed during a request. That is not a fault of the run.
process.on('unhandledRejection', () => {})
process.exitCode = await main(process.argv.slice(2))
process.exit()
