import { clockTrouble } from '../ledger/clock-difference.ts'
import { type Finding, fail, ok, skip, warn } from '../lib/finding.ts'
import { machineOf } from '../lib/place.ts'
import { dialTcp, placeOf } from '../lib/tcp-dial.ts'
import type { WorkerRecord } from '../schema/worker.ts'
import type { FleetSight, LedgerProcess, ProcessReport } from '../store/postgres/processes.ts'
import { agentsText, differencesOf } from './differences.ts'
import { copiesAmong, missingOf } from './missing.ts'

/** Far below the difference at which a process stops trading. */
const CLOCK_MS_MAX = 5_000
const SILENT_MS_MAX = 10_000
const LAG_MS_MAX = 10_000
/** Addresses of one process that are dialed at the same time. */
const DIALS_MAX = 4
const PAGE = 'docs/production.md, More than one machine'
const OPEN_PORT = 'open the port in its firewall, and correct NODE_ANNOUNCE_ADDR there'

type Reporting = LedgerProcess & { report: ProcessReport }

/** Names the processes of this seller that are behind, alone, unreachable, or configured in another way. */
export async function checkProcesses(sight: FleetSight, own: string, signal: AbortSignal): Promise<Finding[]> {
  const { alive } = sight
  const others = alive.filter(({ id }) => id !== own)
  const reporting = alive.filter((one): one is Reporting => one.report !== undefined)
  const me = reporting.find(({ id }) => id === own)
  const found = [
    ...missingOf(sight).map(({ place, agoMs, report }) =>
      warn(
        `${place}${addressText(report)} was lost ${spanOf(agoMs)} ago and has not come back`,
        `start it again there: ${PAGE}`,
      ),
    ),
    ...copied(alive),
    ...alive.flatMap(silence),
    ...behind(reporting),
    ...reporting.flatMap(clock),
    ...reporting.flatMap(lag),
    ...(me === undefined ? [] : reporting.flatMap((one) => otherConfiguration(one, me))),
    ...(await Promise.all(others.map((one) => unreachable(one, me, signal)))).flat(),
  ]
  if (found.length > 0) return found
  if (others.length === 0) return [ok('this process alone uses the ledger')]
  return [
    ok(`${alive.length}, all alike, and each answers at its address: ${alive.map(({ place }) => place).join('; ')}`),
  ]
}

/** The names of containers may all be the same. */
function addressText(report: ProcessReport | undefined): string {
  const [address] = report?.addresses ?? []
  return address === undefined ? '' : `, at ${address.replace(/\/p2p\/[^/]+$/, '')},`
}

/** The market takes them for one node at two places, so each loses messages for the other. */
function copied(alive: readonly LedgerProcess[]): Finding[] {
  const places = copiesAmong(alive).map(({ place }) => place)
  if (places.length === 0) return []
  const fix = 'stop all but one, delete market.key in the data directories of the others, and start them again'
  return [fail(`${places.join(' and ')} run on copies of one data directory: they have the same market.key`, fix)]
}

function silence({ place, silentMs, leaseMs, report }: LedgerProcess): Finding[] {
  if (silentMs > SILENT_MS_MAX) {
    const until = `the others take over its work in ${spanOf(Math.max(0, leaseMs))}`
    return [
      warn(
        `nothing was heard of ${place} for ${spanOf(silentMs)}: ${until}`,
        'see whether it runs and reaches the database',
      ),
    ]
  }
  if (report !== undefined) return []
  return [
    warn(
      `${place} has not said how it is`,
      'it is starting, or a later version: look again in a minute, or read its log',
    ),
  ]
}

function behind(reporting: readonly Reporting[]): Finding[] {
  const newest = reporting.map(({ report }) => report.version).reduce((a, b) => (isOlder(a, b) ? b : a), '0')
  const schema = Math.max(0, ...reporting.map(({ report }) => report.schema ?? 0))
  return reporting.flatMap(({ place, report }) => {
    if (isOlder(report.version, newest)) {
      return warn(`${place} runs version ${report.version}, others run ${newest}`, `upgrade it: ${PAGE}`)
    }
    if (report.schema !== undefined && report.schema < schema) {
      return warn(
        `${place} was made for schema ${report.schema} of the ledger, others for ${schema}`,
        `upgrade it: ${PAGE}`,
      )
    }
    return []
  })
}

function clock({ place, report: { aheadMs } }: Reporting): Finding[] {
  if (Math.abs(aheadMs) <= CLOCK_MS_MAX) return []
  const text = `the clock of ${place} is ${spanOf(Math.abs(aheadMs))} ${aheadMs > 0 ? 'ahead of' : 'behind'} the database’s`
  const fix = 'set the one that is wrong, for example: timedatectl set-ntp true'
  return [clockTrouble(aheadMs) === undefined ? warn(text, fix) : fail(`${text}: it does not trade`, fix)]
}

function lag({ place, report: { lagMs = 0 } }: Reporting): Finding[] {
  if (lagMs <= LAG_MS_MAX) return []
  const text = `${place} has not read for ${spanOf(lagMs)} what the others changed`
  return [warn(text, 'see its log, and how long it waits for the database: stoa status')]
}

/** How the configuration of another process differs from that of this one. */
function otherConfiguration(one: Reporting, me: Reporting): Finding[] {
  const { agents = [], budget = false } = one.id === me.id ? {} : (differencesOf([one.report, me.report]) ?? {})
  return [
    ...(agents.length === 0
      ? []
      : [
          warn(
            `${one.place} has other agents than ${me.place}: ${agentsText(agents, one.report, me.report)}`,
            'give all processes the same agents.yaml, then run stoa agent reload at each',
          ),
        ]),
    ...(budget
      ? [
          warn(
            `${one.place} has another budget in its configuration than ${me.place}`,
            'give both the same settings of buyer: in config.yaml, flags and environment, then restart them',
          ),
        ]
      : []),
  ]
}

/** Dials the addresses that a process announces, from here. */
async function unreachable(one: LedgerProcess, me: Reporting | undefined, signal: AbortSignal): Promise<Finding[]> {
  const { place, report } = one
  // Nobody dials a process that has not reported yet, or that stops.
  if (report === undefined || report.isDraining) return []
  const isHere = me !== undefined && machineOf(me.place) === machineOf(place)
  const usable = report.addresses.filter((address) => isHere || !isLoopback(address))
  if (usable.length === 0) {
    return [fail(`${place} announces no address that others can dial`, `set NODE_ANNOUNCE_ADDR there: ${PAGE}`)]
  }
  const places = usable.flatMap((address) => {
    const found = placeOf(address)
    return found?.transport === 'tcp' && !address.includes('/p2p-circuit') ? found : []
  })
  if (places.length === 0) return [skip(`${place}: only addresses over QUIC or relays, which are not tried`)]
  const reasons = await Promise.all(places.slice(0, DIALS_MAX).map((at) => dialTcp(at, signal)))
  if (reasons.includes(undefined)) return []
  const tried = places.slice(0, DIALS_MAX).map(({ host, port }, index) => `${host}:${port} (${reasons[index]})`)
  return [fail(`${place} cannot be reached from here: ${tried.join(', ')}`, OPEN_PORT)]
}

/** @param agents names of the seller's agents that workers run */
export function checkWorkers(workers: readonly WorkerRecord[], agents: ReadonlySet<string>): Finding[] {
  const joined = workers.filter(({ state }) => state === 'connected' || state === 'away')
  if (joined.length === 0) return [skip('none have joined')]
  const away = joined.filter(({ state }) => state === 'away')
  const found = [
    ...away.map(({ id, name, seen_at: at = 'its invitation' }) =>
      warn(`${name} is not connected, since ${at}`, `start stoa worker there, or remove it: stoa worker revoke ${id}`),
    ),
    ...joined.flatMap((worker) => misnamed(worker, agents)),
    ...joined.flatMap(({ id, name, failing = [] }) =>
      failing.map((agent) =>
        warn(
          `${name} fails its tasks of ${agent}: other workers go first`,
          `look at its log; stoa worker revoke ${id} cuts it off`,
        ),
      ),
    ),
  ]
  if (found.length > 0) return found
  return [ok(`${joined.length} connected: ${joined.map(({ name }) => name).join(', ')}`)]
}

function misnamed({ name, agents }: WorkerRecord, known: ReadonlySet<string>): Finding[] {
  const unknown = agents.filter((agent) => !known.has(agent))
  if (unknown.length === 0) return []
  const fix = 'give it the same name in agents.yaml there and here, and here `worker: true`'
  return [warn(`${name} offers ${unknown.join(', ')}: no agent of this seller that workers run has this name`, fix)]
}

function isLoopback(address: string): boolean {
  return /^\/(?:ip4\/127\.|ip6\/::1\/|dns[46]?\/localhost\/)/.test(address)
}

/** Compares numbers by their parts: 1.9.0 is older than 1.10.0. */
function isOlder(a: string, b: string): boolean {
  const [one, other] = [a, b].map((text) => text.split(/[-+]/)[0]!.split('.').map(Number))
  for (const [index, part] of other!.entries()) {
    const mine = one![index] ?? 0
    if (mine !== part) return mine < part
  }
  return false
}

function spanOf(ms: number): string {
  const seconds = Math.round(ms / 1000)
  if (seconds < 120) return `${seconds} s`
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`
}
