/**
 * A market of many nodes in one process: whether their replicas come to agree, and what each node bears for it, as nodes
 * and listings grow. The same seed gives the same run, but for times.
 *
 * Real: the order of versions (listing-set.ts), the sums and fingerprints of elements, reconciliation with its messages
 * as they go over the wire and their limits; and all of the set of listings and of the index in two witnesses, which are
 * compared with their models at every merge. One of them loses all it has and begins anew.
 *
 * Modelled: a replica of the other nodes is a bit for each version there will ever be, with sums of pages of these, in
 * place of the index, and merges by the same order. Signatures are a word that says true or forged. Gossip is one
 * delivery to each node that is there, lost now and then, and a lie gets no further than the liar's neighbours, since
 * nobody passes on what he finds false. A minute is one step: changes, then a session of each node with a random peer;
 * two for who comes back; two for each liar. Listings are refreshed in turn every 16 hours and one in ten changes besides.
 * Nodes leave for some minutes, the network parts in two for a third of the time, and a newcomer or two know nothing.
 */
import { parseArgs } from 'node:util'
import { type SimulationReport, simulate } from './simulation/simulate.ts'
import { aligned } from './table.ts'

const { values } = parseArgs({
  options: {
    nodes: { type: 'string', default: '1000' },
    listings: { type: 'string', default: '1000000' },
    seed: { type: 'string', default: '1' },
    /** 100, 300 and 1,000 nodes by 10,000, 100,000 and 1,000,000 listings. */
    table: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  },
})
/** Of an envelope with a description of a few sentences. */
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
