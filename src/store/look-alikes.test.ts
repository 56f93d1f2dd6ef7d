import { expect, test } from 'vitest'
import { ann, bob, eve, me, searchedMarket } from '../../test/support/searched-market.ts'

/** Name by name: whose name it may be taken for. */
function marks({ search }: ReturnType<typeof searchedMarket>): string[] {
  return search
    .page({ sort: 'newest' })
    .items.reverse()
    .flatMap(({ name, look_alike_of }) => (look_alike_of === undefined ? [] : [`${name} → ${look_alike_of.name}`]))
}

test.each([
  ['Acme Contract Review', 'Аcme Contrаct Review', 'letters of another script'],
  ['Acme Contract Review', 'ACME-Contract_Review!', 'case and punctuation'],
  ['Acme Contract Review', 'Acme Contract Revlew', 'a letter that looks like it'],
  ['Acme Contract Review', 'Acme Contract Reveiw', 'letters swapped'],
  ['Acme Contract Review', 'Acme Contract Reviews', 'a letter more'],
  ['Acme Contract Review', 'Acme Contrct Review', 'a letter less'],
  ['Summary', 'Summary', 'the same name'],
  ['Acme', 'Аcmе', 'a short name in other letters'],
])('T3 %s is imitated by %s: %s', async (original, imitation) => {
  const market = searchedMarket()
  await market.list(ann, [original])
  market.clock.advance(1)
  const [imitator] = await market.list(eve, [imitation])
  expect(marks(market)).toEqual([`${imitation} → ${original}`])
  expect(market.search.find(imitator!.id)?.look_alike_of).toMatchObject({ name: original, seller_id: ann })
})

test.each([
  ['Acme', 'Acne'],
  ['Summary', 'Sumaryy'],
  ['Contract Review', 'Contract Writer'],
])('%s and %s are two names', async (one, other) => {
  const market = searchedMarket()
  await market.list(ann, [one])
  market.clock.advance(1)
  await market.list(eve, [other])
  expect(marks(market)).toEqual([])
})

test('a seller may give its own agents similar names', async () => {
  const market = searchedMarket()
  await market.list(ann, ['Translator One', 'Translator Onee'])
  expect(marks(market)).toEqual([])
})

test('both of two look-alikes met at once are marked, because neither is known to be older', async () => {
  const market = searchedMarket()
  await market.list(ann, ['Summary'])
  await market.list(bob, ['Summary'])
  expect(marks(market)).toEqual(['Summary → Summary', 'Summary → Summary'])
})

test('T3 an imitator that claims earlier times is still the later one', async () => {
  const market = searchedMarket()
  await market.list(ann, ['Summary'])
  market.clock.advance(1000)
  const longAgo = market.clock.now() - 1_000_000
  await market.list(eve, ['Sumrnary'], { version: longAgo, updated_at: longAgo })
  expect(marks(market)).toEqual(['Sumrnary → Summary'])
})

test('a name that left the market is free only after it is forgotten', async () => {
  const market = searchedMarket()
  const [original] = await market.list(ann, ['Summary'])
  market.clock.advance(1)
  await market.delist(original!)
  await market.list(eve, ['Summary'])
  expect(marks(market)).toEqual(['Summary → Summary'])
  await market.store.index.forget(market.clock.now() + 30 * 24 * 3_600_000)
  await market.compare()
  expect(marks(market)).toEqual([])
})

test('when the original is forgotten its imitators are compared with each other', async () => {
  const market = searchedMarket()
  const [original] = await market.list(ann, ['Summary'])
  for (const seller of [bob, eve, me]) {
    market.clock.advance(1)
    await market.list(seller, ['Summary'])
  }
  await market.delist(original!)
  const [, second] = market.search.page({ sort: 'newest' }).items.reverse()
  expect(second?.look_alike_of?.seller_id).toBe(ann)
  await market.store.index.forget(market.clock.now() + 30 * 24 * 3_600_000)
  await market.compare()
  const left = market.search.page({ sort: 'newest' }).items.reverse()
  expect(left.map(({ look_alike_of }) => look_alike_of?.seller_id)).toEqual([undefined, bob, bob])
})

test('a name that comes back keeps its place in time', async () => {
  const market = searchedMarket()
  const [original] = await market.list(ann, ['Summary'])
  market.clock.advance(1)
  await market.delist(original!)
  await market.list(eve, ['Summary'])
  market.clock.advance(1)
  await market.list(ann, ['Summary'], { version: market.clock.now() + 10 })
  const bySeller = market.search.page({}).items.map((one) => [one.seller_id, one.look_alike_of?.seller_id])
  expect(bySeller).toContainEqual([eve, ann])
  expect(bySeller).toContainEqual([ann, undefined])
})

test('T19 each of thousands of equal names costs no more than the first', async () => {
  const market = searchedMarket()
  await market.list(ann, ['Summary'])
  market.clock.advance(1)
  const crowd = Array.from({ length: 300 }, (_, n) => `${bob.slice(0, -3)}${String(n + 111).replaceAll('0', 'z')}`)
  for (const seller of crowd) await market.list(seller, ['Summary'])
  const { n } = market.database.prepare('SELECT count(*) AS n FROM name_keys').get() as { n: number }
  expect(n).toBeLessThanOrEqual(301 * 4)
  const wrong = market.database.prepare('SELECT count(*) AS n FROM met_listings WHERE number > 1 AND alike <> 1').get()
  expect(wrong).toEqual({ n: 0 })
})
