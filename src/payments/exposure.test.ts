import { describe, expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { claim, exchangeOf, requirements, testWallet } from '../../test/support/payments.ts'
import { createLedger, openRecords } from '../ledger/ledger.ts'
import { silentLogger } from '../lib/logger.ts'
import { openDatabase } from '../store/database.ts'
import type { Claim } from '../store/payments.ts'
import { Exposure, exposureLimits, PEERS_MAX } from './exposure.ts'
import { LOSERS_MAX } from './losses.ts'
import { executed, refused } from './payment.ts'

const PRICE = 9_900n
const HOUR_MS = 60 * 60 * 1000

function setup() {
  const clock = new HandClock()
  const ledger = createLedger(openRecords(openDatabase({ path: ':memory:' }), { hasChain: false }), {
    logger: silentLogger,
    namesOf: () => undefined,
  })
  const stored = ledger.payments
  let leave = () => {}
  const open = async () => {
    leave()
    const exposure = new Exposure(exposureLimits, { clock, logger: silentLogger, payments: stored, chain: undefined })
    await exposure.start()
    leave = ledger.listen((change) => exposure.changed(change))
    return exposure
  }
  return { clock, stored, open }
}
type Setup = Pick<ReturnType<typeof setup>, 'clock' | 'stored'>

/** One signature stands for all: what counts here is the account, and accounts cost nothing. */
function claims(clock: HandClock): () => Claim {
  const one = claim(clock.now(), { wallet: testWallet(1), requirements: requirements({ amount: PRICE }) })
  let made = 0
  return () => {
    const no = (++made).toString(16)
    const from = `0x${no.padStart(40, '0')}` as const
    const nonce = `0x${no.padStart(64, '0')}` as const
    const authorization = { ...one.signed.authorization, from, nonce }
    return { ...one, id: nonce, signed: { ...one.signed, authorization } }
  }
}

async function loseOne(next: () => Claim, exposure: Exposure, { clock, stored: payments }: Setup): Promise<boolean> {
  const one = next()
  const { kind } = await exposure.enter(one, AbortSignal.timeout(5_000))
  if (kind !== 'run') return false
  await payments.claim(one, clock.now())
  const owed = executed({ state: 'authorized', id: one.id }, clock.now())
  await payments.deliver(owed, exchangeOf(one, clock.now()), clock.now())
  await payments.save(refused(owed, 'insufficient_funds', { blamed: true }), clock.now())
  return true
}

test('T6 T17: what may be lost in a day is bounded however cheap a run is, and after a restart', async () => {
  const { clock, open, stored } = setup()
  const next = claims(clock)
  const bound = Number(exposureLimits.totalMax / PRICE)
  expect(bound).toBeGreaterThan(LOSERS_MAX)
  let exposure = await open()
  let free = 0
  for (let turn = 0; turn < 125; turn++) {
    if (turn === 110) exposure = await open()
    const lost = await Promise.all(Array.from({ length: 100 }, () => loseOne(next, exposure, { clock, stored })))
    free += lost.filter(Boolean).length
  }
  expect(free).toBe(bound)
  // Not for ever.
  clock.advance(25 * HOUR_MS)
  expect(await loseOne(next, exposure, { clock, stored })).toBe(true)
  expect(await loseOne(next, await open(), { clock, stored })).toBe(true)
})

test('T6: a loss that is tried again counts as owed, and lost again as one loss', async () => {
  const { clock, open, stored } = setup()
  const next = claims(clock)
  const exposure = await open()
  await loseOne(next, exposure, { clock, stored })
  const id = `0x${'1'.padStart(64, '0')}` as const
  for (let turn = 0; turn < 3; turn++) {
    clock.advance(HOUR_MS)
    expect(await stored.reopen({ id, state: 'owed', attempts: 1 }, clock.now())).toBe(true)
    expect(exposure.total).toBe(PRICE)
    await stored.save(
      refused({ ...executed({ state: 'authorized', id }, clock.now()) }, 'again', { blamed: true }),
      clock.now(),
    )
    expect(exposure.total).toBe(0n)
  }
  const { slots, payers } = await stored.lost(0, { slotMs: HOUR_MS, payersMax: 10 })
  expect(slots).toEqual([{ at: clock.now(), amount: PRICE }])
  expect(payers).toMatchObject([{ count: 1, at: clock.now() }])
})

describe('T6 D45: peer ids cost nothing', () => {
  const open = AbortSignal.timeout(60_000)

  test('an account that comes with a new one for each call pushes out no other peer', async () => {
    const { clock, open: start } = setup()
    const next = claims(clock)
    const exposure = await start()
    const honest = { ...next(), peerId: 'honest', requirements: requirements({ amount: 999_999n }) }
    for (let n = 1; n <= 10; n++) {
      await exposure.enter({ ...honest, id: `0x${(0x200000 + n).toString(16).padStart(64, '0')}` }, open)
    }
    expect(exposure.settlesFirst('honest', PRICE)).toBe(true)
    const hostile = next()
    for (let n = 0; n <= PEERS_MAX; n++) {
      const id = `0x${(0x100000 + n).toString(16).padStart(64, '0')}` as const
      await exposure.enter({ ...hostile, id, peerId: `a2a:${n}`, requirements: requirements({ amount: 1n }) }, open)
    }
    expect(exposure.settlesFirst('honest', PRICE)).toBe(true)
  })

  test('where every known account owes, a peer nobody knows settles first, and is told so', async () => {
    const { clock, open: start } = setup()
    const next = claims(clock)
    const exposure = await start()
    const cheap = requirements({ amount: 1n })
    let last = next()
    for (let n = 0; n < PEERS_MAX; n++, last = next()) {
      expect((await exposure.enter({ ...last, peerId: `peer ${n}`, requirements: cheap }, open)).kind).toBe('run')
    }
    const stranger = { ...last, peerId: 'stranger', requirements: cheap }
    expect(await exposure.enter(stranger, open)).toEqual({ kind: 'settle first', counted: false })
    expect([exposure.settlesFirst('stranger', 1n), exposure.settlesFirst('peer 0', 1n)]).toEqual([true, false])
    exposure.leave(`0x${'1'.padStart(64, '0')}`)
    expect(exposure.settlesFirst('stranger', 1n)).toBe(false)
    expect((await exposure.enter(stranger, open)).kind).toBe('run')
  })
})

test('T6: after a restart the payers that lost last are the last to be forgotten', async () => {
  const { clock, open, stored } = setup()
  const next = claims(clock)
  const exposure = await open()
  const first = next()
  const from = first.signed.authorization.from
  const again = () => {
    const other = next()
    return { ...other, signed: { ...other.signed, authorization: { ...other.signed.authorization, from } } }
  }
  // One payer loses twice, before the others.
  expect(await Promise.all([() => first, again].map((one) => loseOne(one, exposure, { clock, stored })))).toEqual([
    true,
    true,
  ])
  clock.advance(HOUR_MS)
  for (let n = 0; n < 2; n++, clock.advance(HOUR_MS)) await loseOne(next, exposure, { clock, stored })
  const { payers } = await stored.lost(0, { slotMs: HOUR_MS, payersMax: 2 })
  expect(payers.map(({ at }) => at)).toEqual([clock.now() - 2 * HOUR_MS, clock.now() - HOUR_MS])
})
