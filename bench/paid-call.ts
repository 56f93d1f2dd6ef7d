/**
 * Compares the cost of a paid call with its floors and with x402 over HTTP, in one run. Compare only figures of the
 * same run.
 *
 * - ours: two nodes as shipped, `builtin/echo`, an instant facilitator
 * - floor A: the same frames over the same libp2p, without crypto and store
 * - floor B: floor A and one durable commit at each place that the design needs (four in all)
 * - floor C: floor B and the signatures: each payment signed and recovered, and the receipts of a turn of the event loop (ADR-33)
 * - floor D: floor C and what else no implementation can leave out: messages made and read for each call, digests of what is
 *   signed, rows that are found again by their call, and a settlement that is noted
 * - HTTP: an @x402/express seller, a buyer with @x402/fetch and a viem account, the same facilitator
 *
 * - ours, awaits settlement: the buyer takes the transaction with the result, as others do
 * - ours, facilitator 2 s: the facilitator takes as long as on Base, and the buyer does not wait for it
 *
 * - ours, channel: calls on a payment channel, whose deposit is on the chain of a devnet
 * - floor A1: the frames of such a call, one round trip, without crypto and store
 * - floor B1: floor A1 and one durable commit at each side
 * - floor D1: floor B1 and what else no implementation can leave out: the call stored before it leaves, messages made and read, a
 *   voucher signed and recovered once for a turn, receipts of a turn, rows that are found again by their call
 *
 * - ours on PostgreSQL: the same nodes with a server of each on this machine; then the seller's, then both, 5 ms away for
 *   each round trip
 * - floor B on PostgreSQL: floor B with a bare INSERT and its commit at each place
 *
 * A call runs in two processes. The instant facilitator takes no time and answers inside the seller's process, ours and
 * HTTP alike. With `--facilitator http` it runs in a third process for both, and the figures include the seller's HTTP
 * requests. The floors never call a facilitator. All databases lie in one directory, on one disk, at
 * `synchronous=FULL`.
 */
import { availableParallelism } from 'node:os'
import { readFlags } from './flags.ts'
import { type FloorLog, openLog } from './paid-call/floor-log.ts'
import { measureRoundTrip } from './paid-call/postgres.ts'
import {
  allLoads,
  channelGoalsOf,
  farGoalsOf,
  goalLines,
  goalsOf,
  ledgerLines,
  reportLines,
  rowsOf,
  type Sample,
  slowGoalsOf,
} from './paid-call/report.ts'
import { TASK } from './paid-call/terms.ts'
import { type Servers, startVariants, type Variant } from './paid-call/variants.ts'
import { median } from './statistics.ts'

const values = readFlags({
  json: { type: 'boolean', default: false },
  quick: { type: 'boolean', default: false },
  quic: { type: 'boolean', default: false },
  facilitator: { type: 'string', default: 'in-process' },
  rounds: { type: 'string' },
  /** Names of variants, separated by commas. The bench then judges no goals. */
  only: { type: 'string' },
  /** Numbers of concurrent calls, separated by commas. The bench then judges no goals. */
  loads: { type: 'string' },
  /** Time of a round trip to a far database, in ms. */
  far: { type: 'string', default: '5' },
  /** Directory for the CPU profiles of all processes. */
  profile: { type: 'string' },
})
const rounds = Number(values.rounds ?? (values.quick ? 1 : 5))
const durationMs = values.quick ? 300 : 700
/** A node that serves is warm: its code is compiled within some ten thousand calls. */
const warmUpMs = values.quick ? 500 : 6000
const only = values.only?.split(',')
const loads = values.loads?.split(',').map(Number) ?? allLoads

const note = (text: string) => process.stderr.write(`${text}\n`)
const transport = values.quic ? 'quic' : 'tcp'

const facilitator = values.facilitator === 'http' ? 'http' : 'in-process'

const farMs = Number(values.far)
const started = await startVariants({ transport, facilitator, profileDir: values.profile, only, farMs })
try {
  const { variants, servers } = started
  const commitMs = await measureCommit(await openLog(started.directory, ''))
  const serverCommitMs = servers && (await measureCommit(await openLog('', await servers.seller.address())))
  const farRoundTripMs = servers && (await measureRoundTrip(servers.seller, farMs))
  for (const { name, measure } of variants) {
    note(`warming up: ${name}`)
    await measure({ concurrent: 16, durationMs: warmUpMs })
  }
  const samples: Sample[] = []
  const before = await useOf(servers)
  for (let round = 1; round <= rounds; round++) {
    note(`round ${round} of ${rounds}`)
    samples.push(...(await measureRound(variants, round)))
  }
  const setting = {
    transport,
    facilitator,
    taskBytes: TASK.length,
    rounds,
    durationMs,
    commitMs,
    ...(serverCommitMs !== undefined && { serverCommitMs, farMs, farRoundTripMs }),
    ...flushed(before, await useOf(servers), samples),
    node: process.version,
    cpus: availableParallelism(),
    notes:
      'no RPC is configured, but for channels: what the facilitator says stands; request limit and budget are raised',
  }
  const rows = rowsOf(samples, loads)
  const isWhole = only === undefined && values.loads === undefined
  const goals = isWhole ? goalsOf(samples) : []
  const farGoals = isWhole
    ? [...channelGoalsOf(samples), ...slowGoalsOf(samples), ...farGoalsOf(samples, farRoundTripMs ?? farMs)]
    : []
  if (values.json)
    process.stdout.write(
      `${JSON.stringify({ setting, rows, goals: [...goals, ...farGoals], samples }, undefined, 2)}\n`,
    )
  else {
    const text = Object.entries(setting).map(([name, value]) => `${name}: ${value}`)
    const tables = [...reportLines(rows, loads), ...ledgerLines(samples, loads), ...goalLines(goals, farGoals)]
    process.stdout.write(`${[...text, '', ...tables].join('\n')}\n`)
  }
} finally {
  await started.stop()
}

/** Measures every variant at every load in turn, so that a busy minute of the machine affects all of them. */
async function measureRound(variants: readonly Variant[], round: number): Promise<Sample[]> {
  const samples: Sample[] = []
  for (const concurrent of loads) {
    for (const { name, measure } of variants) {
      samples.push({ ...(await measure({ concurrent, durationMs })), variant: name, concurrent, round })
    }
  }
  return samples
}

/** What the servers did so far, together. */
async function useOf(servers: Servers | undefined) {
  const uses = servers === undefined ? [] : [await servers.seller.use(), await servers.buyer.use()]
  const sum = (figure: 'flushes' | 'walBytes') => uses.reduce((all, use) => all + use[figure], 0)
  return { flushes: sum('flushes'), walBytes: sum('walBytes') }
}

/** What the servers flushed for each group of changes, and wrote for each call, over the whole run. */
function flushed(
  before: Awaited<ReturnType<typeof useOf>>,
  after: Awaited<ReturnType<typeof useOf>>,
  samples: readonly Sample[],
): Record<string, number> {
  const onServers = samples.filter(({ variant }) => variant.startsWith('ours') && variant.includes('PostgreSQL'))
  const calls = onServers.reduce((sum, one) => sum + one.calls, 0)
  const groups = onServers.reduce(
    (sum, { calls, ledger }) => sum + calls * (ledger!.seller.groups + ledger!.buyer.groups),
    0,
  )
  if (calls === 0) return {}
  return {
    flushesPerGroup: Math.round(((after.flushes - before.flushes) / groups) * 100) / 100,
    walBytesPerCall: Math.round((after.walBytes - before.walBytes) / calls),
  }
}

/** Time of one commit on this disk. It explains most of the cost of a single call. */
async function measureCommit(log: FloorLog): Promise<number> {
  const times: number[] = []
  for (let turn = 0; turn < 100; turn++) {
    const from = performance.now()
    await log.append('x'.repeat(TASK.length))
    times.push(performance.now() - from)
  }
  await log.close()
  return Math.round(median(times) * 1000) / 1000
}
