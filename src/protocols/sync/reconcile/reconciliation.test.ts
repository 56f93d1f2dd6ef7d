import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readVectors } from '../../../../test/support/read-vectors.ts'
import { type ElementKey, elementKey, timeOf } from './element-key.ts'
import { RangeIndex } from './range-index.ts'
import { MESSAGE_BYTES_MAX, Reconciliation, type ReconciliationOptions } from './reconciliation.ts'
import { createSessionHash, type ShortId } from './session-hash.ts'

type Exchange = Record<'about' | 'salt', string> &
  Record<'client' | 'server' | 'messages' | 'client_has' | 'server_has', string[]> & { since: number }
const { exchanges } = readVectors<{ exchanges: Exchange[] }>('reconciliation')

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
const bytesOf = (text: string) => new Uint8Array(Buffer.from(text, 'hex'))
const keyOf = (name: number, time = name) => elementKey(time, createHash('sha256').update(`${name}`).digest('hex'))
const salt = bytesOf('000102030405060708090a0b0c0d0e0f')

type Side = { have: ElementKey[]; need: ShortId[]; done: boolean }
type Outcome = { client: Side; server: Side; messages: Uint8Array[] }

/** Lets two sides talk until the end. */
function reconcile(
  clientKeys: readonly ElementKey[],
  serverKeys: readonly ElementKey[],
  { since = 0, ...options }: ReconciliationOptions & { since?: number } = {},
): Outcome {
  const sides = [clientKeys, serverKeys].map((keys) => {
    const reconciliation = new Reconciliation(new RangeIndex(keys).snapshot(), options)
    return { reconciliation, have: [] as ElementKey[], need: [] as ShortId[] }
  })
  const messages = [sides[0]!.reconciliation.open({ salt, since })]
  for (let turn = 1; ; turn = 1 - turn) {
    const side = sides[turn]!
    const { have, need, reply } = side.reconciliation.receive(messages.at(-1)!)
    side.have.push(...have)
    side.need.push(...need)
    if (reply === undefined) break
    messages.push(reply)
  }
  const [client, server] = sides.map(({ reconciliation: { done }, ...found }) => ({ ...found, done }))
  return { client: client!, server: server!, messages }
}

function differences(a: readonly ElementKey[], b: readonly ElementKey[]): string[] {
  const others = new Set(b.map(hex))
  return a
    .map(hex)
    .filter((key) => !others.has(key))
    .sort()
}

const namesOf = (keys: readonly string[]) =>
  createSessionHash(salt)
    .shortIds(Buffer.concat(keys.map(bytesOf)))
    .sort((a, b) => a - b)
const byNumber = (a: number, b: number) => a - b

function expectDifferences(clientKeys: readonly ElementKey[], serverKeys: readonly ElementKey[], outcome: Outcome) {
  const { client, server } = outcome
  const [clientHas, serverHas] = [differences(clientKeys, serverKeys), differences(serverKeys, clientKeys)]
  expect([client.done, server.done]).toEqual([true, true])
  expect(client.have.map(hex).sort()).toEqual(clientHas)
  expect(server.have.map(hex).sort()).toEqual(serverHas)
  expect(client.need.toSorted(byNumber)).toEqual(namesOf(serverHas))
  expect(server.need.toSorted(byNumber)).toEqual(namesOf(clientHas))
}

/** Elements in few or in many milliseconds, held by the one side, the other or both. */
const twoSets = fc
  .record({
    spread: fc.constantFrom(1, 3, 1000, 1e9),
    owners: fc
      .constantFrom([0, 1, 2, 2, 2, 2, 2, 2], [0, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 2])
      .chain((weights) => fc.array(fc.constantFrom(...weights), { maxLength: 1500, size: 'max' })),
    times: fc.array(fc.nat(), { minLength: 1, maxLength: 30 }),
  })
  .map(({ spread, owners, times }) => {
    const keys = owners.map((_, name) => keyOf(name, 1.8e12 + ((name * 7919 + times[name % times.length]!) % spread)))
    const of = (side: number) => keys.filter((_, name) => owners[name] === side || owners[name] === 2)
    return [of(0), of(1)] as const
  })

test('both sides end with exactly the differences, whatever two sets they hold (property)', () => {
  fc.assert(
    fc.property(twoSets, ([a, b]) => expectDifferences(a, b, reconcile(a, b))),
    { numRuns: 150 },
  )
})

test('messages that hold little take more rounds and find the same (property)', () => {
  fc.assert(
    fc.property(twoSets, ([a, b]) => {
      const outcome = reconcile(a, b, { messageBytesMax: 1024, messagesMax: 1000 })
      expectDifferences(a, b, outcome)
      for (const message of outcome.messages) expect(message.length).toBeLessThanOrEqual(1024)
    }),
    { numRuns: 60 },
  )
})

test('two large sets with little in common keep to the limits of each message', () => {
  const keys = Array.from({ length: 60_000 }, (_, name) => keyOf(name))
  const [a, b] = [keys.filter((_, name) => name % 3 !== 0), keys.filter((_, name) => name % 3 !== 1)]
  expectDifferences(a, b, reconcile(a, b))
})

test('what is older than `since` is left out (property)', () => {
  fc.assert(
    fc.property(twoSets, fc.nat(1000), ([a, b], after) => {
      const since = 1.8e12 + after
      const late = (keys: readonly ElementKey[]) => keys.filter((key) => timeOf(key) >= since)
      expectDifferences(late(a), late(b), reconcile(a, b, { since }))
    }),
    { numRuns: 40 },
  )
})

test('ten changes among 20,000 cost 5 kB and three round trips, the newest ten half a kilobyte', () => {
  const keys = Array.from({ length: 20_000 }, (_, name) => keyOf(name, name * 4000))
  const bytes = ({ messages }: Outcome) => messages.reduce((sum, message) => sum + message.length, 0)

  const changed = keys.filter((_, name) => name % 2000 !== 777)
  const changes = reconcile(
    [...changed, ...Array.from({ length: 10 }, (_, name) => keyOf(1e6 + name, 8e7 + name))],
    keys,
  )
  expect(changes.client.have).toHaveLength(10)
  expect(changes.server.have).toHaveLength(10)
  expect(bytes(changes)).toBeLessThan(5000)
  expect(changes.messages.length).toBeLessThanOrEqual(6)

  expect(bytes(reconcile(keys.slice(0, -10), keys))).toBeLessThan(500)
  expect(bytes(reconcile(keys, keys))).toBeLessThan(250)
})

test('the newest differences are found first', () => {
  const keys = Array.from({ length: 30_000 }, (_, name) => keyOf(name))
  const client = new Reconciliation(new RangeIndex([]).snapshot())
  const server = new Reconciliation(new RangeIndex(keys).snapshot())
  const first = server.receive(client.open({ salt }))
  expect(first.reply!.length).toBeLessThanOrEqual(MESSAGE_BYTES_MAX)
  expect(first.have.map(hex).sort()).toEqual(keys.slice(-first.have.length).map(hex).sort())
})

test.each(exchanges)('exchange: $about', ({ salt: salted, since, client, server, messages, ...found }) => {
  const sides = [client, server].map((keys) => new Reconciliation(new RangeIndex(keys.map(bytesOf)).snapshot()))
  const said = [hex(sides[0]!.open({ salt: bytesOf(salted), since }))]
  const have: string[][] = [[], []]
  for (let turn = 1; ; turn = 1 - turn) {
    const step = sides[turn]!.receive(bytesOf(said.at(-1)!))
    have[turn]!.push(...step.have.map(hex))
    if (step.reply === undefined) break
    said.push(hex(step.reply))
  }
  expect(said).toEqual(messages)
  expect([have[0]!.sort(), have[1]!.sort()]).toEqual([found.client_has, found.server_has])
})
