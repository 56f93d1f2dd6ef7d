import { randomBytes } from 'node:crypto'
import { type ElementKey, END, KEY_BYTES } from '../../src/market/reconcile/element-key.ts'
import { RangeIndex } from '../../src/market/reconcile/range-index.ts'
import { encodeRanges, RANGES_MAX, type Range } from '../../src/market/reconcile/range-message.ts'
import { Reconciliation } from '../../src/market/reconcile/reconciliation.ts'
import { median } from '../statistics.ts'
import type { Case } from './cases.ts'

export type Exchange = {
  toServerBytes: number
  toClientBytes: number
  messages: number
  clientMs: number
  serverMs: number
  /** Of the process, collection of garbage included. */
  cpuMs: number
}

/** One reconciliation of a case, with the median of its times over some rounds. @throws Error where it finds anything else */
export function measureCase({ name, differences, client, server }: Case, rounds: number): Exchange {
  const [clientIndex, serverIndex] = [new RangeIndex(client), new RangeIndex(server)]
  const runs = Array.from({ length: rounds }, () => exchange(clientIndex, serverIndex))
  const found = runs.at(-1)!.serverHas
  if (found !== differences) throw new Error(`${name}: ${found} differences were found of ${differences}`)
  const middle = (figure: keyof Exchange) => median(runs.map((run) => run[figure]))
  return {
    toServerBytes: middle('toServerBytes'),
    toClientBytes: middle('toClientBytes'),
    messages: middle('messages'),
    clientMs: middle('clientMs'),
    serverMs: middle('serverMs'),
    cpuMs: middle('cpuMs'),
  }
}

function exchange(client: RangeIndex, server: RangeIndex): Exchange & { serverHas: number } {
  const sides = [client, server].map((index) => ({
    reconciliation: new Reconciliation(index.snapshot()),
    bytes: 0,
    ms: 0,
    has: 0,
  }))
  const cpuBefore = process.cpuUsage()
  const openedAt = performance.now()
  let message = sides[0]!.reconciliation.open({ salt: randomBytes(16) })
  sides[0]!.ms += performance.now() - openedAt
  sides[0]!.bytes += message.length
  let messages = 1
  for (let turn = 1; ; turn = 1 - turn, messages++) {
    const side = sides[turn]!
    const from = performance.now()
    const { have, reply } = side.reconciliation.receive(message)
    side.ms += performance.now() - from
    side.has += have.length
    if (reply === undefined) break
    side.bytes += reply.length
    message = reply
  }
  const { user, system } = process.cpuUsage(cpuBefore)
  return {
    toServerBytes: sides[0]!.bytes,
    toClientBytes: sides[1]!.bytes,
    messages,
    clientMs: sides[0]!.ms,
    serverMs: sides[1]!.ms,
    cpuMs: (user + system) / 1000,
    serverHas: sides[1]!.has,
  }
}

export type IndexCosts = {
  buildMs: number
  addMicros: number
  deleteMicros: number
  /** Of all elements: kept ready. */
  sumOfAllMicros: number
  /** Of any range. */
  sumOfRangeMicros: number
  /** Undefined where the garbage collector cannot be called: run with --expose-gc. */
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

/** What a hostile first message costs in one turn: all the ranges it can hold, all of them lies, over all elements. */
export function measureWorstMessage(keys: readonly ElementKey[]): number {
  const step = Math.max(1, Math.floor(keys.length / RANGES_MAX))
  const bounds = keys.filter((_, index) => index > 0 && index % step === 0).slice(0, RANGES_MAX - 1)
  const lies = [...bounds, END].map((until): Range => ({ mode: 'fingerprint', until, fingerprint: new Uint8Array(8) }))
  const message = Buffer.concat([Uint8Array.of(1), new Uint8Array(16), encodeRanges(lies)])
  const server = new Reconciliation(new RangeIndex(keys).snapshot())
  return timed(() => server.receive(message))
}

export function timed(work: () => void): number {
  const from = performance.now()
  work()
  return performance.now() - from
}

/** The floor of any way to know whether two sets are equal: to have them in order, packed. */
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
  // What typed arrays hold is given back a little later.
  for (let turn = 0; turn < 5; turn++) {
    globalThis.gc()
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
