import type { UnixMs } from '../../../lib/clock.ts'
import { type AskedRange, AskedRanges } from './asked-ranges.ts'
import { boundAt, compareKeys, END, START } from './element-key.ts'
import {
  answerTo,
  ask,
  type DueAnswer,
  type KeyDifference,
  lackedBy,
  type RangeAnswer,
  type Side,
} from './range-answers.ts'
import type { RangeView } from './range-index.ts'
import { BOUND_BYTES_MAX, decodeRanges, encodeRanges, RANGES_MAX, type Range, sizeOfAll } from './range-message.ts'
import { invalid, ReconcileError } from './reconcile-error.ts'
import { createSessionHash, SALT_BYTES, type SessionHash } from './session-hash.ts'

/** The longest message, which is one turn of either side. */
export const MESSAGE_BYTES_MAX = 64 * 1024
/** Messages taken from the peer. They are enough to name 1.4 million elements. */
const MESSAGES_MAX = 128
/**
 * Ranges taken in one session. Two sets of 100,000 elements with little in common need 9000 ranges from either side.
 * Beyond the limit the session is cut; the next one starts with fewer differences, because the newest are found first.
 */
const SESSION_RANGES_MAX = 16_384
const FORMAT = 1

/** @internal Exported for its test. */
export type ReconciliationOptions = {
  /** Size of a message that we send: 1 to 64 KiB. */
  messageBytesMax?: number
  /** Messages taken from the peer. */
  messagesMax?: number
  /** Ranges taken from the peer in all messages together. Each costs us some microseconds. */
  rangesMax?: number
}

/** What a message brought, and what to send next (undefined: nothing to say). @internal Exported for its test. */
export type Step = KeyDifference & { reply: Uint8Array | undefined }

/**
 * One side of the reconciliation of two sets of elements, by ranges.
 *
 * 1. The side that opens sends fingerprints of a few ranges, finer toward the newest elements.
 * 2. The other side answers a fingerprint with `equal` or with fingerprints of parts of the range. If it has few
 * elements in the range, it answers with a list of their names.
 * 3. The answer to a list says which of the elements the answering side lacks, and which it has in addition. Both sides
 * then know the differences.
 * 4. The sides take turns until neither asks. What does not fit into a message waits for a later message;
 * the newest elements go first. A side that has nothing to say, but still expects answers, sends an empty message.
 *
 * The peer is not trusted. It may speak only about what it was asked, and each question it asks in return must be
 * smaller. Messages, their size and their ranges are counted. The peer can still lie, and so hide or promise elements.
 * That harms only this session, and the listings it sends afterwards are checked like any others.
 */
export class Reconciliation {
  readonly #view: RangeView
  readonly #limits: Required<ReconciliationOptions>
  #hash: SessionHash | undefined
  #asked: AskedRange[] = []
  #due: DueAnswer[] = []
  #messages = 0
  #ranges = 0
  #done = false

  /** @param view must not change during the session */
  constructor(view: RangeView, options: ReconciliationOptions = {}) {
    this.#view = view
    this.#limits = {
      messageBytesMax: MESSAGE_BYTES_MAX,
      messagesMax: MESSAGES_MAX,
      rangesMax: SESSION_RANGES_MAX,
      ...options,
    }
  }

  /** True once everything was asked and answered. */
  get done(): boolean {
    return this.#done
  }

  /** The first message, of the side that opens. `salt`: 16 random bytes. `since`: earlier elements are left out. */
  open({ salt, since = 0 }: { salt: Uint8Array; since?: UnixMs }): Uint8Array {
    this.#hash = createSessionHash(salt)
    const from = boundAt(since)
    const { ranges, asked } = ask(this.#side(), from, END)
    this.#asked = asked
    const before: Range[] = since === 0 ? [] : [{ mode: 'pass', until: from }]
    return Buffer.concat([Uint8Array.of(FORMAT), salt, encodeRanges([...before, ...ranges])])
  }

  /**
   * Takes the peer's next message. The side that does not open starts here. @throws ReconcileError: the session is over
   */
  receive(message: Uint8Array): Step {
    if (this.#done) throw invalid('a message after the end')
    try {
      return this.#step(message)
    } catch (error) {
      this.#done = true
      throw error
    }
  }

  #step(message: Uint8Array): Step {
    const { messagesMax, rangesMax } = this.#limits
    if (message.length > MESSAGE_BYTES_MAX) throw invalid(`a message of ${message.length} bytes`)
    if (++this.#messages > messagesMax) throw over(`${messagesMax} messages`)
    const isFirst = this.#hash === undefined
    const ranges = decodeRanges(isFirst ? this.#accept(message) : message)
    this.#ranges += ranges.length
    if (this.#ranges > rangesMax) throw over(`${rangesMax} ranges`)
    if (ranges.length === 0 && this.#due.length === 0) throw invalid('a message that says nothing')

    const found: KeyDifference = { have: [], need: [] }
    this.#take(ranges, found, isFirst)
    // The peer does not want to know about ranges that it left out when it opened.
    if (isFirst) this.#asked = []
    const said = this.#say(found)
    this.#done = this.#asked.length === 0 && this.#due.length === 0
    return { ...found, reply: said.length > 0 || !this.#done ? encodeRanges(said) : undefined }
  }

  /** Reads the head of the first message. Its ranges are free, as if everything had been asked. */
  #accept(message: Uint8Array): Uint8Array {
    if (message[0] !== FORMAT || message.length < 1 + SALT_BYTES) throw invalid('no first message of this format')
    this.#hash = createSessionHash(message.subarray(1, 1 + SALT_BYTES))
    this.#asked = [{ from: START, until: END, by: 'fingerprint' }]
    return message.subarray(1 + SALT_BYTES)
  }

  /** Strikes out what was answered, and records what the peer asks in return. */
  #take(ranges: readonly Range[], found: KeyDifference, isFirst: boolean): void {
    const asked = new AskedRanges(this.#asked)
    const due: DueAnswer[] = []
    let from = START
    for (const range of ranges) {
      const { until } = range
      switch (range.mode) {
        case 'pass':
          break
        case 'equal':
          asked.strikeEqual(from, until)
          break
        case 'fingerprint':
          asked.strikePart(from, until, { whole: isFirst })
          due.push({ from, until, question: { kind: 'fingerprint', fingerprint: range.fingerprint } })
          break
        case 'list':
          asked.strikePart(from, until, { whole: true })
          due.push({ from, until, question: { kind: 'list', ids: range.ids } })
          break
        case 'answer':
          append(found.have, lackedBy(this.#side(), asked.strikeNewest(from, until), range.lacks))
          append(found.need, range.ids)
      }
      from = until
    }
    this.#asked = asked.left()
    this.#due = [...this.#due, ...due].sort(byPlace)
  }

  /** Answers as much as fits into a message, the newest ranges first. */
  #say(found: KeyDifference): Range[] {
    const side = this.#side()
    const answers: RangeAnswer[] = []
    const asked: AskedRange[] = []
    let bytes = this.#limits.messageBytesMax
    let ranges = RANGES_MAX
    for (let due = this.#due.at(-1); due !== undefined; due = this.#due.at(-1)) {
      // Each answer may need an empty range (`pass`) before it.
      bytes -= BOUND_BYTES_MAX
      const answer = answerTo(side, due, bytes)
      if (answer === undefined) break
      bytes -= sizeOfAll(answer.ranges, answer.from)
      ranges -= answer.ranges.length
      if (bytes < 0 || ranges < 0) break
      this.#due.pop()
      if (answer.rest !== undefined) this.#due.push(answer.rest)
      answers.push(answer)
      append(asked, answer.asked)
      append(found.have, answer.have)
      append(found.need, answer.need)
    }
    this.#asked = [...this.#asked, ...asked].sort(byPlace)
    return joined(answers.reverse())
  }

  #side(): Side {
    return { view: this.#view, hash: this.#hash! }
  }
}

function over(limit: string): ReconcileError {
  return new ReconcileError('RECONCILE_LIMIT', `the peer needs more than ${limit}`)
}

/** Joins the ranges of the answers in ascending order. It fills gaps with `pass` and merges adjacent `equal` ranges. */
function joined(answers: readonly RangeAnswer[]): Range[] {
  const said: Range[] = []
  for (const { from, ranges } of answers) {
    if (compareKeys(said.at(-1)?.until ?? START, from) < 0) said.push({ mode: 'pass', until: from })
    for (const range of ranges) {
      if (range.mode === 'equal' && said.at(-1)?.mode === 'equal') said.pop()
      said.push(range)
    }
  }
  return said
}

function byPlace(a: { from: Uint8Array }, b: { from: Uint8Array }): number {
  return compareKeys(a.from, b.from)
}

/** `push` with many arguments would overflow the stack. */
function append<T>(list: T[], items: readonly T[]): void {
  for (const item of items) list.push(item)
}
