import type { AskedRange } from './asked-ranges.ts'
import { type Bound, boundBetween, type ElementKey, KEY_BYTES, START } from './element-key.ts'
import type { RangeView } from './range-index.ts'
import { BOUND_BYTES_MAX, type Range, sizeOfAll } from './range-message.ts'
import { invalid } from './reconcile-error.ts'
import { type SessionHash, SHORT_ID_BYTES, type ShortId } from './session-hash.ts'

/** Our elements, and the hash that names them in this session. */
export type Side = { view: RangeView; hash: SessionHash }

type Question =
  | { kind: 'fingerprint'; fingerprint: Uint8Array }
  | { kind: 'list'; ids: readonly ShortId[] }
  /** A list whose newer part was answered. This older part is still due. */
  | { kind: 'rest'; ids: ReadonlySet<ShortId> }
export type DueAnswer = { from: Bound; until: Bound; question: Question }

/** `have`: our elements that the peer lacks. `need`: the peer's elements that we lack. */
export type KeyDifference = { have: ElementKey[]; need: ShortId[] }
type RangeQuestion = { ranges: Range[]; asked: AskedRange[] }
/** The answer to a due range, from position `from` on. `rest`: what is still due before it. */
export type RangeAnswer = RangeQuestion & KeyDifference & { from: Bound; rest?: DueAnswer }

const PARTS = 16
/** Least number of elements in a part. */
const PART_MIN = 16
/** A range with at most this many elements is listed instead of split. */
const LIST_MAX = 32
/** Elements examined at once. */
const BLOCK = 1024

/** The first question, about all elements, finer toward the newest, where most differences are. */
export function ask(side: Side, from: Bound, until: Bound): RangeQuestion {
  const [first, last] = ranksOf(side, from, until)
  if (last - first <= LIST_MAX) return list(side, from, until)
  const cuts = evenCuts(first, last)
  for (let newest = (last - cuts.at(-1)!) >> 2; newest >= PART_MIN; newest >>= 2) cuts.push(last - newest)
  return split(side, from, until, cuts)
}

/** The answer, or as much of it as fits into `bytesMax`. Undefined if nothing fits. */
export function answerTo(side: Side, due: DueAnswer, bytesMax: number): RangeAnswer | undefined {
  const { from, until, question } = due
  if (question.kind !== 'fingerprint') return tell(side, due, bytesMax)
  const [first, last] = ranksOf(side, from, until)
  const nothing = { from, have: [], need: [] }
  if (Buffer.compare(fingerprintOf(side, first, last), question.fingerprint) === 0) {
    return { ...nothing, ranges: [{ mode: 'equal', until }], asked: [] }
  }
  const isShort = last - first <= LIST_MAX
  return { ...nothing, ...(isShort ? list(side, from, until) : split(side, from, until, evenCuts(first, last))) }
}

/** Asks about the parts between these ranks. */
function split(side: Side, from: Bound, until: Bound, cuts: readonly number[]): RangeQuestion {
  const { view } = side
  const ranks = [...cuts, view.rankOf(until)]
  const said: RangeQuestion = { ranges: [], asked: [] }
  let [start, first] = [from, view.rankOf(from)]
  for (const [part, last] of ranks.entries()) {
    const end = part === cuts.length ? until : boundBetween(view.keyAt(last - 1), view.keyAt(last))
    said.ranges.push({ mode: 'fingerprint', until: end, fingerprint: fingerprintOf(side, first, last) })
    said.asked.push({ from: start, until: end, by: 'fingerprint' })
    start = end
    first = last
  }
  return said
}

function list(side: Side, from: Bound, until: Bound): RangeQuestion {
  const ids = listed(side, from, until).map(({ id }) => id)
  return { ranges: [{ mode: 'list', until, ids }], asked: [{ from, until, by: 'list' }] }
}

/** The elements of a list, in list order. */
function listed(side: Side, from: Bound, until: Bound): NamedKey[] {
  return namesOf(side, ...ranksOf(side, from, until)).sort((a, b) => a.id - b.id)
}

/** The elements of our list that the peer lacks. @throws ReconcileError `RECONCILE_INVALID` */
export function lackedBy(side: Side, { from, until, by }: AskedRange, lacks: Uint8Array): ElementKey[] {
  if (lacks.length === 0) return []
  const named = by === 'list' ? listed(side, from, until) : []
  const bits = 8 * lacks.length - (Math.clz32(lacks.at(-1)!) - 24)
  if (bits > named.length) throw invalid('the peer lacks what was not listed')
  return named.filter((_, index) => (lacks[index >> 3]! >> (index & 7)) & 1).map(({ key }) => key)
}

/** Answers a list: which elements of it we lack, and which we have in addition; the newest first if not all fit. */
function tell(side: Side, { from, until, question }: DueAnswer, bytesMax: number): RangeAnswer | undefined {
  if (question.kind === 'fingerprint') return undefined
  const ids = question.kind === 'list' ? new Set(question.ids) : question.ids
  const [first, last] = ranksOf(side, from, until)
  const listed = question.kind === 'list' ? question.ids : []
  const lacked = lackedOf(side, first, last, listed)
  const lacks = bitmapOf(listed, lacked)
  const need = listed.filter((id) => lacked.has(id))

  const head = sizeOfAll([{ mode: 'answer', until, lacks, ids: [] }], START) + BOUND_BYTES_MAX
  const idsMax = Math.floor((bytesMax - head) / SHORT_ID_BYTES)
  if (idsMax < 1) return undefined
  const told: NamedKey[] = []
  for (let end = last; end > first; end -= BLOCK) {
    for (const named of namesOf(side, Math.max(end - BLOCK, first), end).reverse()) {
      if (ids.has(named.id)) continue
      if (told.length < idsMax) {
        told.push(named)
        continue
      }
      const cut = boundBetween(named.key, told.at(-1)!.key)
      const rest: DueAnswer = { from, until: cut, question: { kind: 'rest', ids } }
      return { ...answerOf(until, lacks, told), from: cut, need, rest }
    }
  }
  return { ...answerOf(until, lacks, told), from, need }
}

function answerOf(until: Bound, lacks: Uint8Array, told: readonly NamedKey[]): Omit<RangeAnswer, 'from' | 'need'> {
  const ids = told.map(({ id }) => id).sort((a, b) => a - b)
  return { ranges: [{ mode: 'answer', until, lacks, ids }], asked: [], have: told.map(({ key }) => key) }
}

function lackedOf({ view, hash }: Side, first: number, last: number, ids: readonly ShortId[]): Set<ShortId> {
  const lacked = new Set(ids)
  for (let start = first; start < last && lacked.size > 0; start += BLOCK) {
    for (const id of hash.shortIds(view.keys(start, Math.min(start + BLOCK, last)))) lacked.delete(id)
  }
  return lacked
}

/** One bit for each id, the least significant first, without the zero bytes at the end. */
function bitmapOf(ids: readonly ShortId[], set: ReadonlySet<ShortId>): Uint8Array {
  const last = ids.findLastIndex((id) => set.has(id))
  const bitmap = new Uint8Array((last >> 3) + 1)
  for (const [index, id] of ids.entries()) if (set.has(id)) bitmap[index >> 3]! |= 1 << (index & 7)
  return bitmap
}

type NamedKey = { id: ShortId; key: ElementKey }

function namesOf({ view, hash }: Side, first: number, last: number): NamedKey[] {
  const keys = view.keys(first, last)
  const keyOf = (index: number) => keys.subarray(index * KEY_BYTES, (index + 1) * KEY_BYTES)
  return hash.shortIds(keys).map((id, index) => ({ id, key: keyOf(index) }))
}

function fingerprintOf({ view, hash }: Side, first: number, last: number): Uint8Array {
  return hash.fingerprint(view.sum(first, last), last - first)
}

function ranksOf({ view }: Side, from: Bound, until: Bound): [first: number, last: number] {
  return [view.rankOf(from), view.rankOf(until)]
}

function evenCuts(first: number, last: number): number[] {
  const parts = Math.min(PARTS, Math.ceil((last - first) / PART_MIN))
  return Array.from({ length: parts - 1 }, (_, part) => first + Math.floor(((last - first) * (part + 1)) / parts))
}
