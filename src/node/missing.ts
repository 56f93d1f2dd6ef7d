import { machineOf } from '../lib/place.ts'
import { isPublicAddress } from '../lib/public-address.ts'
import { placeOf } from '../lib/tcp-dial.ts'
import type { EndedProcess, FleetSight, LedgerProcess } from '../store/postgres/processes.ts'

/**
 * Processes that were lost and have not come back.
 *
 * A process is known by its data directory, which one process at a time has. So it may come back on another machine. A new
 * process may also replace a lost one whose public address it announces. The name of the machine decides only where the data
 * directory is unknown, because an older version does not report it.
 */
export function missingOf({ alive, ended }: FleetSight): EndedProcess[] {
  const endedHomes = new Set(ended.map(homeOf))
  /** Each may replace one lost process. A process that ran before on its own data directory is back, and replaces none. */
  const newcomers = alive.filter((one) => homeOf(one) === undefined || !endedHomes.has(homeOf(one)))
  const laterHomes = new Set<string>()
  // The process that ended last comes first. The youngest process that can replace it does.
  return ended.filter((gone) => {
    const home = homeOf(gone)
    if (home !== undefined) {
      // A later process ran on the same data directory: only its end counts.
      if (laterHomes.has(home)) return false
      laterHomes.add(home)
    }
    if (!gone.isLost) return false
    const isBack = (one: LedgerProcess) => homeOf(one) === home && isLater(one, gone)
    if (home !== undefined && alive.some(isBack)) return false
    const index = newcomers.findLastIndex((one) => isLater(one, gone) && replaces(one, gone))
    if (index >= 0) newcomers.splice(index, 1)
    return index < 0
  })
}

/**
 * Processes that run at the same time with one `market.key`, because a data directory was copied with it. A process that was
 * killed and started again does not count: the earlier process has not reported since.
 */
export function copiesAmong(alive: readonly LedgerProcess[]): LedgerProcess[] {
  const together = (a: LedgerProcess, b: LedgerProcess) => a.silentMs < b.upMs && b.silentMs < a.upMs
  const isCopy = (one: LedgerProcess, other: LedgerProcess) =>
    one.id !== other.id && homeOf(one) !== undefined && homeOf(one) === homeOf(other) && together(one, other)
  return alive.filter((one) => alive.some((other) => isCopy(one, other)))
}

const homeOf = ({ report }: Pick<LedgerProcess, 'report'>) => report?.home

/** True if it started after the other was last heard of. */
function isLater({ upMs }: LedgerProcess, { silentMs }: EndedProcess): boolean {
  return upMs < silentMs
}

function replaces(one: LedgerProcess, gone: EndedProcess): boolean {
  const areKnown = homeOf(one) !== undefined && homeOf(gone) !== undefined
  if (!areKnown && machineOf(one.place) === machineOf(gone.place)) return true
  const places = publicPlaces(gone)
  return publicPlaces(one).some((place) => places.includes(place))
}

/** Private addresses are given to others, such as those of containers. Those of a relay belong to the relay. */
function publicPlaces({ report }: Pick<LedgerProcess, 'report'>): string[] {
  return (report?.addresses ?? []).flatMap((address) => {
    const place = address.includes('/p2p-circuit') ? undefined : placeOf(address)
    if (place === undefined || !(isPublicAddress(place.host) || isName(place.host))) return []
    return `${place.host}:${place.port}`
  })
}

function isName(host: string): boolean {
  return host.includes('.') && /[a-z]$/i.test(host)
}
