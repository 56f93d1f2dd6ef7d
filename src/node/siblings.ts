import type { Host } from '../p2p/host.ts'
import { mergeAddresses } from '../p2p/multiaddrs.ts'
import { STARTING_MS } from './differences.ts'

/** A process of this seller that is alive, as the ledger shows it. */
type Sibling = { id: string; place: string; upMs: number; report: Report | undefined }
type Report = {
  addresses: readonly string[]
  agents: readonly string[]
  isDraining: boolean
  definitions?: Readonly<Record<string, string>> | undefined
}

type WorkerLoad = {
  agents: readonly string[]
  failing?: readonly string[] | undefined
  running: number
  runsMax: number
}
type LoadedSibling = {
  id: string
  silentMs: number
  report: { isDraining: boolean; workers?: readonly WorkerLoad[] | undefined } | undefined
}

/** A report that is older says nothing about how busy workers are. A process reports every 3 s. */
const LOAD_MS_MAX = 10_000

/** What the other processes of this seller say of themselves. A node alone has none. */
type Siblings = {
  /** Where buyers reach an agent: the addresses of this process and of all others that sell the agent. */
  addresses(agentId: string): string[]
  /** Also called when an address of this process changes. */
  onAddressesChange(listener: () => void): () => void
  /** The ids of the agents that other processes sell. */
  agents(): ReadonlySet<string>
  /** The other processes that sell an agent. */
  sellersOf(agentId: string): string[]
  /** Where the processes run that have other settings for an agent than this one, or do not have it. */
  unlike(name: string): string[]
  /** Tells the other processes at once which agents this one sells, and hears the same of them. */
  tell(): Promise<void>
  /** Sets how they are told. Without it, nobody is. */
  tellBy(way: () => Promise<void>): void
  /** Takes in how many more runs the workers of the other processes can take. */
  noteLoads(processes: readonly LoadedSibling[]): void
  /** True if a worker of another process is free for a run of this agent. Counts the run, until its process is heard again. */
  takesRun(agentName: string): boolean
  /** Takes what the processes that are alive have said last, this one included, oldest first. */
  note(processes: readonly Sibling[]): void
}

/** The ids of the agents that processes other than this one sell. */
export function soldByOthers(
  processes: readonly { id: string; report: Pick<Report, 'agents'> | undefined }[],
  process: string,
): ReadonlySet<string> {
  return new Set(processes.flatMap(({ id, report }) => (id === process ? [] : (report?.agents ?? []))))
}

/** @param process the id of this process */
export function createSiblings(process: string, host: Pick<Host, 'addresses' | 'onAddressesChange'>): Siblings {
  const listeners = new Set<() => void>()
  let processes: readonly Sibling[] = []
  let tell = async () => {}
  /** Workers of other processes, with the runs that each can take. */
  let rooms: { agents: ReadonlySet<string>; free: number }[] = []

  function addresses(agentId: string): string[] {
    const others = processes.filter(({ id, report }) => id === process || report?.agents.includes(agentId) === true)
    if (others.every(({ id }) => id === process)) return host.addresses()
    // Each process must come to the same list, so all take the processes in the same order.
    const own = { id: process, report: undefined }
    const all = others.some(({ id }) => id === process) ? others : [...others, own]
    return mergeAddresses(all.map(({ id, report }) => (id === process ? host.addresses() : (report?.addresses ?? []))))
  }

  /** What the listings of this process depend on. */
  const places = () =>
    JSON.stringify(processes.map(({ id, report }) => (id === process ? id : [id, report?.addresses, report?.agents])))

  return {
    addresses,
    onAddressesChange(listener) {
      listeners.add(listener)
      const leave = host.onAddressesChange(listener)
      return () => {
        listeners.delete(listener)
        leave()
      }
    },
    agents: () => soldByOthers(processes, process),
    sellersOf: (agentId) =>
      processes.flatMap(({ id, report }) => (id !== process && report?.agents.includes(agentId) === true ? id : [])),
    unlike(name) {
      const here = processes.find(({ id }) => id === process)?.report?.definitions
      // A process of another version may not say.
      const differs = ({ report, upMs }: Sibling) => {
        if (report?.definitions === undefined) return false
        const there = report.definitions[name]
        return there === undefined ? upMs >= STARTING_MS && here?.[name] !== undefined : there !== here?.[name]
      }
      return here === undefined ? [] : processes.filter(differs).map(({ place }) => place)
    },
    noteLoads(alive) {
      const heard = alive.filter(
        ({ id, silentMs, report }) => id !== process && silentMs < LOAD_MS_MAX && report?.isDraining === false,
      )
      rooms = heard
        .flatMap(({ report }) => report?.workers ?? [])
        .map(({ agents, failing = [], running, runsMax }) => ({
          ...{ agents: new Set(agents.filter((agent) => !failing.includes(agent))), free: runsMax - running },
        }))
    },
    takesRun(agentName) {
      const room = rooms.find(({ agents, free }) => free > 0 && agents.has(agentName))
      if (room === undefined) return false
      room.free -= 1
      return true
    },
    tell: () => tell(),
    tellBy(way) {
      tell = way
    },
    note(alive) {
      const before = places()
      processes = alive.filter(({ report }) => report?.isDraining !== true)
      if (places() !== before) for (const listener of listeners) listener()
    },
  }
}
