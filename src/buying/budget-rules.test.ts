import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { testBudget } from '../../test/support/test-budget.ts'
import { openDatabase } from '../store/database.ts'
import { createPurchases } from '../store/purchases.ts'
import { createStoredRules } from '../store/stored-rules.ts'
import { budgetRules, createRulesStore, effectiveRules } from './budget-rules.ts'

const configured = budgetRules({ maxPriceAtomic: 1_000_000n, dailyBudgetAtomic: 5_000_000n, deny: ['a'] })

test('a change outlives the process, and what was not changed follows the configuration', async () => {
  const store = createRulesStore(createStoredRules(openDatabase({ path: ':memory:' })))
  await store.change(configured, { per_day: 2_000_000n, per_call: null, auto_approve_below: 0n, deny: [] })
  const kept = effectiveRules(configured, await store.load())
  expect(kept).toEqual({
    ...{ perCall: undefined, perDay: 2_000_000n, perMonth: undefined, perSeller: undefined, autoApproveBelow: 0n },
    ...{ allow: [], deny: [] },
  })
  expect(effectiveRules({ ...configured, perMonth: 7n }, await store.load()).perMonth).toBe(7n)
})

test('the configuration has the last word again once it says something else than it did', async () => {
  const store = createRulesStore(createStoredRules(openDatabase({ path: ':memory:' })))
  await store.change(configured, { per_day: 9_000_000n, deny: ['b'] })
  const tightened = { ...configured, perDay: 1_000_000n }
  expect(effectiveRules(tightened, await store.load())).toMatchObject({ perDay: 1_000_000n, deny: ['b'] })
})

test('two changes at once both hold: no limit is lost to the other', async () => {
  const database = openDatabase({ path: ':memory:' })
  const clock = new HandClock()
  const rules = createRulesStore(createStoredRules(database))
  const purchases = createPurchases(database)
  const budget = testBudget({}, { clock, purchases, store: rules })
  await Promise.all([budget.change({ deny: ['a-thief'] }), budget.change({ per_day: 2_000_000n })])
  expect(await budget.view()).toMatchObject({ deny: ['a-thief'], per_day: '2' })
  expect(await rules.load()).toMatchObject({ deny: { is: ['a-thief'] }, perDay: { is: '2' } })
})

const account = `0x${'0'.repeat(39)}1`

test.each([
  ['seller.example', 'https://seller.example', true],
  ['Seller.Example..', 'https://seller.example', true],
  ['seller.example:443', 'https://seller.example', true],
  ['seller.example.:8443', 'https://seller.example:8443', true],
  ['seller.example', 'https://seller.example:8443', true],
  ['seller.example:443', 'https://seller.example:8443', false],
  ['seller.example', 'https://other.seller.example', false],
  ['nas.lan:80', 'http://nas.lan', true],
  ['nas.lan:443', 'http://nas.lan', false],
  ['2606:4700:0:0:0:0:0:1111', 'https://[2606:4700::1111]', true],
  ['1.1.257', 'https://1.1.1.1', true],
  [account.toUpperCase().replace('X', 'x'), 'https://seller.example', true],
  ['12D3KooWseller', 'https://seller.example', false],
])('T41: the rule %s is about %s: %s', (party, origin, isAbout) => {
  const sellerId = `${origin}#${account}`
  const purchases = createPurchases(openDatabase({ path: ':memory:' }))
  const allows = (rules: object) =>
    testBudget(rules, { clock: new HandClock(), purchases }).allows({ agentId: `${origin}/run`, sellerId })
  expect([allows({ deny: [party] }), allows({ allow: [party] })]).toEqual([!isAbout, isAbout])
})
