import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { boundAt, compareKeys, END, elementKey, KEY_BYTES, START } from './element-key.ts'
import { RangeIndex, type RangeView } from './range-index.ts'
import { decodeRanges, encodeRanges, RANGES_MAX, type Range } from './range-message.ts'
import { ReconcileError } from './reconcile-error.ts'
import { MESSAGE_BYTES_MAX, Reconciliation, type Step } from './reconciliation.ts'

const salt = new Uint8Array(16)
const head = Uint8Array.of(1, ...salt)
const keyOf = (name: number, time = name) => elementKey(time, createHash('sha256').update(`${name}`).digest('hex'))
const indexOf = (size: number, step = 1000) =>
  new RangeIndex(Array.from({ length: size }, (_, name) => keyOf(name, name * step)))
const views = [0, 1, 20, 40, 3000].map((size) => indexOf(size).snapshot())

const fingerprint = new Uint8Array(8).fill(7)
const lie = (until: Uint8Array): Range => ({ mode: 'fingerprint', until, fingerprint })

const time = fc.oneof(
  fc.nat(3_000_000),
  fc.nat(40).map((step) => step * 75_000),
)
const content = fc.oneof(
  fc.record({ mode: fc.constantFrom('pass' as const, 'equal' as const) }),
  fc.record({ mode: fc.constant('fingerprint' as const), fingerprint: fc.uint8Array({ minLength: 8, maxLength: 8 }) }),
  fc.record({ mode: fc.constant('list' as const), ids: fc.array(fc.nat(2 ** 48 - 1), { maxLength: 40 }) }),
  fc.record({
    mode: fc.constant('answer' as const),
    lacks: fc.uint8Array({ maxLength: 5 }),
    ids: fc.array(fc.nat(2 ** 48 - 1), { maxLength: 40 }),
  }),
)
/** Ranges that can be written, whatever they say. */
const ranges = fc
  .tuple(fc.uniqueArray(time, { maxLength: 20 }), fc.array(content, { maxLength: 20 }))
  .map(([times, contents]) => {
    const untils = [
      ...times
        .filter((at) => at > 0)
        .sort((a, b) => a - b)
        .map(boundAt),
      END,
    ]
    return contents.slice(0, untils.length).map((said, index) => ({ ...said, until: untils[index]! }) as Range)
  })
const message = fc.oneof(
  fc.uint8Array({ maxLength: 200 }),
  ranges.map((list) => encodeRanges(list.map(sorted))),
  ranges.map((list) => Buffer.concat([head, encodeRanges(list.map(sorted))])),
)

function sorted(range: Range): Range {
  if (range.mode !== 'list' && range.mode !== 'answer') return range
  const ids = range.ids.toSorted((a, b) => a - b)
  if (range.mode === 'list') return { ...range, ids }
  return { ...range, ids, lacks: range.lacks.slice(0, range.lacks.findLastIndex(Boolean) + 1) }
}

/** Feeds messages until it is over, and checks that nothing but the coded error comes of it. */
function feed(
  reconciliation: Reconciliation,
  messages: Iterable<Uint8Array>,
): { steps: Step[]; error?: ReconcileError } {
  const steps: Step[] = []
  for (const bytes of messages) {
    try {
      const step = reconciliation.receive(bytes)
      steps.push(step)
      expect(step.reply?.length ?? 0).toBeLessThanOrEqual(MESSAGE_BYTES_MAX)
    } catch (error) {
      expect(error).toBeInstanceOf(ReconcileError)
      expect(reconciliation.done).toBe(true)
      return { steps, error: error as ReconcileError }
    }
  }
  return { steps }
}

test('T8 any messages end in nothing but the coded error, whichever side takes them (property)', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...views),
      fc.boolean(),
      fc.array(message, { maxLength: 6 }),
      (view, opens, messages) => {
        const reconciliation = new Reconciliation(view)
        if (opens) reconciliation.open({ salt })
        const { steps } = feed(reconciliation, messages)
        const have = steps.flatMap((step) => step.have.map((key) => Buffer.from(key).toString('hex')))
        expect(new Set(have).size).toBe(have.length)
      },
    ),
    { numRuns: 3000 },
  )
})

type Asked = { from: Uint8Array; until: Uint8Array; mode: Range['mode'] }

/** What a message of the honest side asks. */
function askedIn(bytes: Uint8Array): Asked[] {
  let from = START
  return decodeRanges(bytes).flatMap(({ until, mode }) => {
    const asked = { from, until, mode }
    from = until
    return mode === 'fingerprint' || mode === 'list' ? [asked] : []
  })
}

/** The place just before: what lies between it and the other is nothing. */
function justBefore(bound: Uint8Array): Uint8Array {
  const before = bound.slice()
  let index = KEY_BYTES - 1
  while (before[index] === 0) before[index--] = 0xff
  before[index]! -= 1
  return before
}

/** Puts ranges that begin anywhere into a message. */
function messageOf(said: readonly { from: Uint8Array; range: Range }[]): Uint8Array {
  const list: Range[] = []
  for (const { from, range } of said) {
    if (compareKeys(list.at(-1)?.until ?? START, from) < 0) list.push({ mode: 'pass', until: from })
    list.push(range)
  }
  return encodeRanges(list)
}

/** A view that counts what it is asked. */
function counted(view: RangeView): { view: RangeView; sums: () => number } {
  let sums = 0
  const sum = (from: number, to: number) => {
    sums++
    return view.sum(from, to)
  }
  return { view: { ...view, sum }, sums: () => sums }
}

const SIZE = 20_000
const large = indexOf(SIZE).snapshot()
const openings = messageOf(
  [...Array(2000).keys()].map((part) => ({
    from: boundAt(part * 10_000),
    range: lie(boundAt((part + 1) * 10_000)),
  })),
)

/** Talks to the honest side as `answer` says until it has had enough. */
function converse(honest: Reconciliation, first: Uint8Array, answer: (asked: readonly Asked[]) => Uint8Array) {
  let [bytes, turns] = [first, 0]
  for (;;) {
    const { error, steps } = feed(honest, [bytes])
    if (error !== undefined) return { code: error.code, turns }
    if (++turns > 1000) throw new Error('it goes on and on')
    if (steps[0]!.reply === undefined) return { code: undefined, turns }
    bytes = answer(askedIn(steps[0]!.reply))
  }
}

test('T7 a peer that never agrees, and asks on about all but the last bit of each range, is cut off', () => {
  const { view, sums } = counted(large)
  const server = new Reconciliation(view)
  const ended = converse(server, Buffer.concat([head, openings]), (asked) =>
    messageOf(
      asked
        .filter(({ mode }) => mode === 'fingerprint')
        .slice(0, RANGES_MAX)
        .map(({ from, until }) => ({ from, range: lie(justBefore(until)) })),
    ),
  )
  expect(ended.code).toMatch(/RECONCILE_(LIMIT|INVALID)/)
  // Each element is asked about in ever smaller ranges, not again and again.
  expect(sums()).toBeLessThan(SIZE)
})

test('T7 a peer that answers a list in endless slivers is cut off', () => {
  let until = END
  const client = new Reconciliation(indexOf(20).snapshot())
  client.open({ salt })
  const sliver = () => {
    const from = until === END ? boundAt(1_000_000) : justBefore(until)
    const range: Range = { mode: 'answer', until, lacks: new Uint8Array(), ids: [1, 2, 3] }
    until = from
    return messageOf([{ from, range }])
  }
  expect(converse(client, sliver(), sliver)).toEqual({ code: 'RECONCILE_LIMIT', turns: 128 })
})

test('T7 a peer that asks more than we allow is cut off', () => {
  const server = new Reconciliation(large, { rangesMax: 1000 })
  expect(feed(server, [Buffer.concat([head, openings])]).error?.code).toBe('RECONCILE_LIMIT')
})

test('T7 the longest messages stay within their limits, and cost no more than their ranges', () => {
  const { view, sums } = counted(large)
  const server = new Reconciliation(view)
  const { steps } = feed(server, [Buffer.concat([head, openings])])
  expect(steps[0]?.reply?.length).toBeGreaterThan(1000)
  expect(sums()).toBeLessThan(2 * RANGES_MAX)
  const tooLong = new Reconciliation(large)
  expect(feed(tooLong, [new Uint8Array(MESSAGE_BYTES_MAX + 1)]).error?.code).toBe('RECONCILE_INVALID')
})

test('T3 a peer that claims to hold the same hides what it holds, and nothing else', () => {
  const client = new Reconciliation(large)
  client.open({ salt })
  const { steps } = feed(client, [encodeRanges([{ mode: 'equal', until: END }])])
  expect(steps).toEqual([{ have: [], need: [], reply: undefined }])
  expect(client.done).toBe(true)
})

test('T3 a peer that claims to lack all is told of each element once', () => {
  const server = new Reconciliation(indexOf(5000).snapshot())
  const have: string[] = []
  for (let bytes: Uint8Array = Buffer.concat([head, encodeRanges([{ mode: 'list', until: END, ids: [] }])]); ; ) {
    const step = server.receive(bytes)
    have.push(...step.have.map((key) => Buffer.from(key).toString('hex')))
    if (server.done) break
    bytes = new Uint8Array()
  }
  expect([have.length, new Set(have).size]).toEqual([5000, 5000])
})

const [a, b, c] = [1000, 2000, 3000].map(boundAt) as [Uint8Array, Uint8Array, Uint8Array]
const none = new Uint8Array()
const answer = (until: Uint8Array, lacks = none): Range => ({ mode: 'answer', until, lacks, ids: [] })

/** What a server asks, by the client's first question, and an answer no honest client gives. */
const lies: [what: string, first: Range[], said: Range[]][] = [
  [
    'equal where nothing was asked',
    [lie(a)],
    [
      { mode: 'pass', until: a },
      { mode: 'equal', until: b },
    ],
  ],
  ['equal, to a list', [lie(END)], [{ mode: 'equal', until: END }]],
  ['a question, to a list', [lie(END)], [lie(END)]],
  ['more than was listed', [lie(END)], [answer(END, Uint8Array.of(0, 0, 0x80))]],
  ['the older part of a list first', [lie(END)], [answer(b)]],
  ['a list that was not sent', [{ mode: 'list', until: END, ids: [] }], [answer(END)]],
  ['beyond its list', [{ mode: 'pass', until: b }, lie(c)], [{ mode: 'pass', until: a }, answer(c)]],
  ['nothing', [lie(END)], []],
]

test.each(lies)('T8 refuses an answer that is %s', (_, first, said) => {
  const server = new Reconciliation(indexOf(20).snapshot())
  const { steps, error } = feed(server, [Buffer.concat([head, encodeRanges(first)]), encodeRanges(said)])
  expect(steps).toHaveLength(1)
  expect(error?.code).toBe('RECONCILE_INVALID')
})

test('T8 refuses that something is lacked in the second part of an answer: all of the list was in the first', () => {
  const server = new Reconciliation(indexOf(20).snapshot())
  const first = messageOf([{ from: boundAt(9000), range: answer(END, Uint8Array.of(1)) }])
  const second = messageOf([{ from: START, range: answer(boundAt(9000), Uint8Array.of(1)) }])
  const { steps, error } = feed(server, [Buffer.concat([head, encodeRanges([lie(END)])]), first, second])
  expect(steps[1]?.have).toHaveLength(1)
  expect(error?.code).toBe('RECONCILE_INVALID')
})

test('T8 refuses the same question in return, questions beyond the asked ones, and answers after the end', () => {
  const asking = () => {
    const client = new Reconciliation(indexOf(3000).snapshot())
    return { client, asked: askedIn(client.open({ salt }).subarray(head.length)) }
  }
  const { client: first, asked } = asking()
  expect(feed(first, [encodeRanges([lie(asked[0]!.until)])]).error?.code).toBe('RECONCILE_INVALID')
  const { client: second } = asking()
  expect(feed(second, [encodeRanges([lie(asked[1]!.until)])]).error?.code).toBe('RECONCILE_INVALID')
  const { client: third } = asking()
  const equal = encodeRanges([{ mode: 'equal', until: END }])
  expect(feed(third, [equal, equal]).error?.code).toBe('RECONCILE_INVALID')
})

test.each([
  ['no head', none],
  ['a cut head', head.subarray(0, 16)],
  ['another format', Uint8Array.of(2, ...salt, 0x3f)],
  ['a head alone', head],
])('T8 refuses a first message of %s', (_, bytes) => {
  expect(feed(new Reconciliation(large), [bytes]).error?.code).toBe('RECONCILE_INVALID')
})
