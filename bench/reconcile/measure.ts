import { randomBytes } from 'node:crypto'
import { type ElementKey, END, KEY_BYTES } from '../../src/protocols/sync/reconcile/element-key.ts'
import { RangeIndex } from '../../src/protocols/sync/reconcile/range-index.ts'
import { encodeRanges, RANGES_MAX, type Range } from '../../src/protocols/sync/reconcile/range-message.ts'
import { ReconcileError } from '../../src/protocols/sync/reconcile/reconcile-error.ts'
import { Reconciliation } from '../../src/protocols/sync/reconcile/reconciliation.ts'
import { answerFalsely, openFalsely } from '../simulation/liars.ts'
import { seededRandom } from '../simulation/random.ts'
import { median } from '../statistics.ts'
import type { Case } from './cases.ts'

export type Exchange = {
  toServerBytes: number
  toClientBytes: number
  messages: number
  /** CPU time in ms, like all times here. */
  clientMs: number
  serverMs: number
  /** CPU time of the process, including other threads such as the garbage collector's. */
  cpuMs: number
}

/**
 * The mean of several reconciliations of a case; short cases repeat more often. @throws Error if a reconciliation finds
 * a wrong result
 */
export function measureCase({ name, differences, client, server }: Case, rounds: number): Exchange {
  const [clientIndex, serverIndex] = [new RangeIndex(client), new RangeIndex(server)]
  const many = differences < 100 ? 20 * rounds : rounds
  const runs = Array.from({ length: many }, () => exchange(clientIndex, serverIndex))
  const found = runs.at(-1)!.serverHas
  if (found !== differences) throw new Error(`${name}: ${found} differences were found of ${differences}`)
  // The CPU clock ticks in steps longer than a short run. The mean of many runs is right, and the median is not.
  const mean = (figure: keyof Exchange) => runs.reduce((sum, run) => sum + run[figure], 0) / many
  return {
    toServerBytes: Math.round(mean('toServerBytes')),
    toClientBytes: Math.round(mean('toClientBytes')),
    messages: Math.round(mean('messages')),
    clientMs: mean('clientMs'),
    serverMs: mean('serverMs'),
    cpuMs: mean('cpuMs'),
  }
}

function exchange(client: RangeIndex, server: RangeIndex): Exchange & { serverHas: number } {
  const [one, other] = [sideOf(client), sideOf(server)]
  const before = process.cpuUsage()
  let message: Uint8Array | undefined
  one.ms += timed(() => {
    message = one.reconciliation.open({ salt: randomBytes(16) })
  })
  let messages = 0
  for (let [from, to] = [one, other]; message !== undefined; [from, to] = [to, from]) {
    const received = message
    messages++
    from.bytes += received.length
    to.ms += timed(() => {
      const { have, reply } = to.reconciliation.receive(received)
      to.has += have.length
      message = reply
    })
  }
  const { user, system } = process.cpuUsage(before)
  return {
    toServerBytes: one.bytes,
    toClientBytes: other.bytes,
    messages,
    clientMs: one.ms,
    serverMs: other.ms,
    cpuMs: (user + system) / 1000,
    serverHas: other.has,
  }
}

function sideOf(index: RangeIndex) {
  return { reconciliation: new Reconciliation(index.snapshot()), bytes: 0, ms: 0, has: 0 }
}

export type IndexCosts = {
  buildMs: number
  addMicros: number
  deleteMicros: number
  /** Sum of all elements, which the index keeps ready. */
  sumOfAllMicros: number
  /** Sum of any range. */
  sumOfRangeMicros: number
  /** Undefined without access to the garbage collector: run with --expose-gc. */
  bytesPerElement: number | undefined
}

export async function measureIndex(keys: readonly ElementKey[], more: readonly ElementKey[]): Promise<IndexCosts> {
  const before = await memory()
  const index = new RangeIndex(keys)
  const after = await memory()
  const bytesPerElement = before === undefined || after === undefined ? undefined : (after - before) / keys.length
  const view = index.snapshot()
  const ranges = more.map((key, turn) => [view.rankOf(key), view.rankOf(more.at(-1 - turn)!)].sort((a, b) => a - b))
  return {
    buildMs: median([1, 2, 3, 4, 5].map(() => timed(() => new RangeIndex(keys)))),
    addMicros: perElement(more, (key) => index.add(key)),
    deleteMicros: perElement(more, (key) => index.delete(key)),
    sumOfAllMicros: perElement(more, () => view.sum(0, view.size)),
    sumOfRangeMicros: perElement(ranges, ([from, to]) => view.sum(from!, to!)),
    bytesPerElement,
  }
}

/** The cost of a hostile first message in one turn: the maximum of ranges, all of them false, over all elements. */
export function measureWorstMessage(keys: readonly ElementKey[]): number {
  const step = Math.max(1, Math.floor(keys.length / RANGES_MAX))
  const bounds = keys.filter((_, index) => index > 0 && index % step === 0).slice(0, RANGES_MAX - 1)
  const lies = [...bounds, END].map((until): Range => ({ mode: 'fingerprint', until, fingerprint: new Uint8Array(8) }))
  const message = Buffer.concat([Uint8Array.of(1), new Uint8Array(16), encodeRanges(lies)])
  const server = new Reconciliation(new RangeIndex(keys).snapshot())
  return timed(() => server.receive(message))
}

/** The cost of a peer that answers each question with more questions, until it is cut off. */
export function measureEndless(keys: readonly ElementKey[]): { ms: number; bytes: number } {
  const random = seededRandom(1)
  const server = new Reconciliation(new RangeIndex(keys).snapshot())
  let message = openFalsely('endless', random)
  let bytes = 0
  const ms = timed(() => {
    while (!server.done) {
      bytes += message.length
      try {
        const { reply } = server.receive(message)
        bytes += reply?.length ?? 0
        message = answerFalsely('endless', reply ?? new Uint8Array(), false, random)
      } catch (error) {
        if (!(error instanceof ReconcileError)) throw error
      }
    }
  })
  return { ms, bytes }
}

/** CPU time of this thread in ms. Other work of the machine is not included. */
export function timed(work: () => void): number {
  const before = process.threadCpuUsage()
  work()
  const { user, system } = process.threadCpuUsage(before)
  return (user + system) / 1000
}

/** The floor of every way to compare two sets: the elements in order, packed. */
export function sortAndPack(keys: readonly ElementKey[]): Uint8Array {
  const packed = new Uint8Array(keys.length * KEY_BYTES)
  for (const [index, key] of keys.toSorted(Buffer.compare).entries()) packed.set(key, index * KEY_BYTES)
  return packed
}

function perElement<T>(items: readonly T[], work: (item: T) => void): number {
  return (timed(() => items.forEach(work)) / items.length) * 1000
}

async function memory(): Promise<number | undefined> {
  if (globalThis.gc === undefined) return undefined
  // The memory of typed arrays is released a little later.
  for (let turn = 0; turn < 5; turn++) {
    globalThis.gc()
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
