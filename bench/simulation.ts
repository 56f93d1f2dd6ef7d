/**
 * Simulates a market of many nodes in one process. It shows whether their replicas converge, and the cost for each node
 * as nodes and listings grow. The same seed gives the same run, except for times.
 *
 * Real parts: the order of versions (listings/set.ts), the sums and fingerprints of elements, and reconciliation with
 * its wire messages and limits. Two witnesses use the real set of listings and the real index, and are compared with
 * their models at every merge. One witness loses all its data and starts again.
 *
 * Modeled parts:
 * - A replica of another node is a bit for each version that will ever exist, with sums of pages of these bits instead
 * of the index. It merges by the same order.
 * - A signature is a flag: true or forged.
 * - Gossip is one delivery to each present node and is sometimes lost. A lie reaches only the liar's neighbors, because
 * no honest node forwards a message that it finds false.
 * - A minute is one step: changes, then a session of each node with a random peer. A returning node and a liar have two
 * sessions.
 * - Each listing is refreshed every 16 hours, and one in ten changes besides.
 * - Nodes leave for some minutes, the network is split in two for a third of the time, and one or two newcomers start
 * empty.
 */
import { readFlags } from './flags.ts'
import { type SimulationReport, simulate } from './simulation/simulate.ts'
import { aligned } from './table.ts'

const values = readFlags({
  nodes: { type: 'string', default: '1000' },
  listings: { type: 'string', default: '1000000' },
  seed: { type: 'string', default: '1' },
  /** Runs 100, 300 and 1,000 nodes with 10,000, 100,000 and 1,000,000 listings. */
  table: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
})
/** Bytes of an envelope with a description of a few sentences. */
const ENVELOPE_BYTES = 700

type Run = SimulationReport & { seconds: number; rssBytes: number }

const sizes = values.table
  ? [100, 300, 1000].flatMap((nodes) => [10_000, 100_000, 1_000_000].map((listings) => ({ nodes, listings })))
  : [{ nodes: Number(values.nodes), listings: Number(values.listings) }]
const runs: Run[] = []
for (const size of sizes) {
  process.stderr.write(`${size.nodes} nodes, ${size.listings} listings\n`)
  const from = performance.now()
  const report = simulate({ seed: Number(values.seed), ...size })
  runs.push({ ...report, seconds: (performance.now() - from) / 1000, rssBytes: process.memoryUsage.rss() })
}
process.stdout.write(values.json ? `${JSON.stringify(runs, undefined, 2)}\n` : `${reportLines().join('\n')}\n`)
process.exitCode = runs.every(({ converged, work }) => converged && work.misjudged === 0) ? 0 : 1

function reportLines(): string[] {
  const agreement = ['nodes', 'listings', 'changes', 'agreed after', 'stale']
  const traffic = ['gossip', 'handed over', '(lies)', 'reconciling', '(liars)']
  const effort = ['signatures', 'forged', 'CPU', '(liars)', 'took', 'memory', 'digest']
  return [
    `seed ${values.seed}, Node ${process.version}; one node in ten lies; figures are of one honest node in one minute`,
    '',
    ...aligned([[...agreement, ...traffic, ...effort], ...runs.map(cellsOf)]),
    '',
    'changes: of all listings in a minute. agreed after: minutes after the last change, with all nodes there.',
    'stale: share of listings of which an honest node lacks the latest version, when the parted network heals and when',
    `changes end. gossip, handed over: envelopes of ${ENVELOPE_BYTES} bytes that came by gossip and after reconciling; of these, from`,
    'liars. reconciling: its messages, both ways; of these, with liars. signatures: checked; of these, found forged. CPU: of',
    'reconciling; of this, with liars. The index of all nodes but the witnesses is the model of it.',
    `honest peers taken for hostile: ${runs.reduce((sum, { work }) => sum + work.misjudged, 0)}`,
  ]
}

function cellsOf(run: Run): string[] {
  const { work, minutes, honest } = run
  const perMinute = (figure: number) => figure / (minutes * honest)
  const kilobytes = (bytes: number) => `${(perMinute(bytes) / 1000).toFixed(1)} kB`
  const milliseconds = (ms: number) => `${perMinute(ms).toFixed(1)} ms`
  const share = (part: number) => `${(100 * part).toFixed(2)} %`
  return [
    String(run.nodes),
    String(run.listings),
    String(run.changesPerMinute),
    run.converged ? `${run.quietRounds} min` : 'never',
    `${share(run.staleShare.atHealing)}, ${share(run.staleShare.atEnd)}`,
    kilobytes(work.gossiped * ENVELOPE_BYTES),
    kilobytes(work.handedOver * ENVELOPE_BYTES),
    kilobytes(work.liarEnvelopes * ENVELOPE_BYTES),
    kilobytes(work.reconcileBytes),
    kilobytes(work.liarBytes),
    perMinute(work.verified).toFixed(1),
    perMinute(work.forged).toFixed(2),
    milliseconds(work.reconcileMs),
    milliseconds(work.liarMs),
    `${run.seconds.toFixed(0)} s`,
    `${(run.rssBytes / 1e9).toFixed(1)} GB`,
    run.digest,
  ]
}
