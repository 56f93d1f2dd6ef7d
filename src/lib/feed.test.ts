import { expect, test } from 'vitest'
import { Feed } from './feed.ts'

type Topics = { a: string; b: number }
const feedOf = (options: Partial<ConstructorParameters<typeof Feed>[0]> = {}) =>
  new Feed<Topics>({ life: 'x', ...options })

/** What a subscriber is given until its feed ends, or `count` of it. */
async function taken(
  subscription: ReturnType<Feed<Topics>['subscribe']>,
  count = Number.POSITIVE_INFINITY,
): Promise<unknown[]> {
  const list: unknown[] = []
  while (list.length < count) {
    const { value, done } = await subscription.next()
    if (done === true) break
    list.push(value.type === 'reset' ? 'reset' : value.read())
  }
  return list
}

test('tells followers of what happens from now on, and only of what they asked for', async () => {
  const feed = feedOf()
  feed.publish('a', '1', () => 'before')
  const all = feed.subscribe()
  const some = feed.subscribe({ types: ['b'] })
  feed.publish('a', '1', () => 'now')
  feed.publish('b', '1', () => 2)
  feed.close()
  expect(await taken(all)).toEqual(['now', 2])
  expect(await taken(some)).toEqual([2])
  expect(await taken(feed.subscribe())).toEqual([])
})

test('data are read when they are taken, not when they are published', async () => {
  const feed = feedOf()
  const subscription = feed.subscribe()
  let state = 'first'
  feed.publish('a', '1', () => state)
  state = 'second'
  expect(await taken(subscription, 1)).toEqual(['second'])
})

test('whoever comes back gets what it missed, of each thing the last', async () => {
  const feed = feedOf()
  feed.publish('a', '1', () => 'seen')
  const after = feed.last
  for (const [key, value] of [
    ['1', 'one'],
    ['2', 'two'],
    ['1', 'three'],
  ] as const) {
    feed.publish('a', key, () => value)
  }
  feed.publish('b', '1', () => 4)
  expect(await taken(feed.subscribe({ after }), 3)).toEqual(['two', 'three', 4])
  expect(await taken(feed.subscribe({ after, types: ['b'] }), 1)).toEqual([4])
})

test.each([
  ['of an earlier life', 'y-1'],
  ['that has not happened', 'x-99'],
  ['before all that is kept', 'x-1'],
  ['that is none', 'x-1e1'],
])('an id %s begins with a reset', async (_, after) => {
  const feed = feedOf({ historyMax: 2 })
  for (let n = 0; n < 5; n++) feed.publish('b', '1', () => n)
  const [first] = await taken(feed.subscribe({ after }), 1)
  expect(first).toBe('reset')
  expect(await taken(feed.subscribe({ after: 'x-3' }), 1)).toEqual([4])
})

test('T8 whoever does not keep up is let go with a reset, and the others notice nothing', async () => {
  const feed = feedOf({ queueMax: 3 })
  const slow = feed.subscribe()
  const quick = feed.subscribe()
  for (let n = 0; n < 5; n++) {
    feed.publish('b', '1', () => n)
    expect(await taken(quick, 1)).toEqual([n])
  }
  expect(await taken(slow)).toEqual(['reset'])
})

test('T8 there are at most so many followers; one that leaves, or whose signal aborts, makes room', async () => {
  const feed = feedOf({ subscribersMax: 2 })
  const leaving = new AbortController()
  const first = feed.subscribe({ signal: leaving.signal })
  const second = feed.subscribe({ types: ['b'] })
  expect(() => feed.subscribe()).toThrow(expect.objectContaining({ code: 'STREAMS_TOO_MANY' }))
  expect(feed.isWatched('a')).toBe(true)
  const waiting = first.next()
  leaving.abort()
  expect(await waiting).toEqual({ value: undefined, done: true })
  expect(feed.isWatched('a')).toBe(false)
  await second.return?.()
  feed.subscribe()
  feed.subscribe()
})
