import fc from 'fast-check'
import { afterEach, describe, expect, test } from 'vitest'
import { endProcess } from '../../test/support/end-process.ts'
import { FakeSettlement, type Settling, unclear } from '../../test/support/fake-settlement.ts'
import { HandClock } from '../../test/support/hand-clock.ts'
import { claim, exchangeOf, randomHex, testWallet } from '../../test/support/payments.ts'
import { until } from '../../test/support/until.ts'
import { silentLogger } from '../lib/logger.ts'
import type { Hex } from '../schema/primitives.ts'
import { openDatabase } from '../store/database.ts'
import { createExchanges } from '../store/exchanges.ts'
import { createPayments, type Payments } from '../store/payments.ts'
import { SETTLEMENT_ATTEMPTS_MAX } from './payment.ts'
import { Settler } from './settler.ts'

const refusal: Settling = { moves: false, answer: { kind: 'refused', reason: 'the facilitator refuses: no money' } }
const unreached: Settling = { moves: false, answer: { kind: 'unreached', reason: 'nobody there' } }
const isDown: Settling = { moves: false, answer: { kind: 'down', reason: 'the facilitator answered 503' } }

type Options = {
  settlement?: FakeSettlement
  clock?: HandClock
  payments?: Payments
  chain?: boolean
  firstAttemptWaitMs?: number
  attemptTimeoutMs?: number
}
const started: Settler[] = []
afterEach(async () => {
  await Promise.all(started.splice(0).map((settler) => settler.stop()))
})

/** A settler over a real store in memory. It looks at the outbox every few ms; what is due is up to the hand clock. */
async function setup(options: Options = {}) {
  const { settlement = new FakeSettlement(), clock = new HandClock(), chain = true } = options
  const database = openDatabase({ path: ':memory:' })
  const stored = options.payments ?? createPayments(database)
  /** Calls of the store, the facilitator and the chain that are under way. */
  let busy = 0
  const counted =
    <Args extends unknown[], T>(call: (...args: Args) => Promise<T>) =>
    async (...args: Args) => {
      busy++
      return await call(...args).finally(() => busy--)
    }
  const payments = { ...stored, save: counted(stored.save) }
  const facilitator = { ...settlement.facilitator, settle: counted(settlement.facilitator.settle) }
  const asked = {
    ...settlement.chain,
    authorizationUse: counted(settlement.chain.authorizationUse),
    authorizationAt: counted(settlement.chain.authorizationAt),
  }
  const log: string[] = []
  const note = (_: object, message: string) => void log.push(message)
  const logger = { ...silentLogger, warn: note, error: note }
  const open = async () => {
    const settler = new Settler(
      {
        firstAttemptWaitMs: options.firstAttemptWaitMs ?? 5_000,
        attemptTimeoutMs: options.attemptTimeoutMs ?? 20,
        tickMaxMs: 2,
      },
      {
        clock,
        logger,
        payments,
        facilitator,
        chain: chain ? asked : undefined,
        chance: () => 0.5,
      },
    )
    started.push(settler)
    await settler.start()
    return settler
  }
  /** The next process goes on with the same ledger. */
  const reopen = () => {
    endProcess(database)
    return open()
  }
  const settler = await open()
  const paid = (changes: Parameters<typeof claim>[1] = {}) => claim(clock.now(), changes)
  /** Claims a payment and delivers for it. */
  const deliver = async (payment = paid()) => {
    expect(await settler.claim(payment)).toBe(true)
    return { payment, txHash: await settler.deliver(payment, exchangeOf(payment, clock.now())) }
  }
  const stateOf = async (id: Hex) => (await payments.get(id))?.state
  /** Lets time go by, in steps in which everything due is done. */
  const pass = async (ms: number, id: Hex) => {
    const isQuiet = async () =>
      busy === 0 && ((await stateOf(id)) !== 'owed' || (await payments.get(id))!.nextAttemptAt! > clock.now())
    const end = clock.now() + ms
    do {
      await until(isQuiet, { everyMs: 1 })
      clock.set(Math.min(end, Math.max(clock.now() + 1, (await payments.nextDueAt()) ?? end)))
    } while (clock.now() < end)
    await until(isQuiet, { everyMs: 1 })
  }
  const exchanges = createExchanges(database)
  return { settlement, clock, database, payments, exchanges, settler, reopen, paid, deliver, stateOf, pass, log }
}

describe('D31: settlement', () => {
  test('gives the transaction at once, and is settled when the chain shows it', async () => {
    const { deliver, settlement, payments, exchanges, pass, stateOf } = await setup()
    const { payment, txHash } = await deliver()
    const use = settlement.useOf(payment.signed.authorization.from, payment.signed.authorization.nonce)
    expect(use).toMatchObject({ state: 'used', txHash })
    expect(await exchanges.paidOutput(payment.id)).toBe('result')
    await until(async () => (await payments.get(payment.id))?.txHash)
    expect(await stateOf(payment.id)).toBe('owed')
    await pass(2_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'settled', txHash, attempts: 1 })
    expect(settlement.attempts).toHaveLength(1)
  })

  test('is settled by the facilitator’s word where there is no chain to ask (T15)', async () => {
    const { deliver, payments } = await setup({ chain: false })
    const { payment, txHash } = await deliver()
    await until(async () => (await payments.get(payment.id))?.state === 'settled')
    expect((await payments.get(payment.id))?.txHash).toBe(txHash)
  })

  test('D46: settles what no answer waited for, also beyond the attempts that it makes at once', async () => {
    const settlement = new FakeSettlement()
    const { facilitator } = settlement
    const { settle } = facilitator
    const { promise: open, resolve: release } = Promise.withResolvers<void>()
    let asked = 0
    facilitator.settle = async (...call) => {
      asked++
      await open
      return settle(...call)
    }
    const market = await setup({ settlement, chain: false, attemptTimeoutMs: 60_000 })
    const { settler, paid, payments, clock } = market
    const sold = await Promise.all(
      Array.from({ length: 300 }, async () => {
        const payment = paid()
        await settler.claim(payment)
        await settler.deliver(payment, exchangeOf(payment, clock.now()), { awaitsSettlement: false })
        return payment.id
      }),
    )
    await until(() => asked >= 256)
    expect(settlement.attempts).toEqual([])
    release()
    const isSettled = async () =>
      (await Promise.all(sold.map((id) => payments.get(id)))).every((one) => one?.state === 'settled')
    await until(isSettled)
    expect(new Set(settlement.attempts).size).toBe(300)
    expect([asked, settlement.attempts.length]).toEqual([300, 300])
    const counts = await Promise.all(sold.map(async (id) => (await payments.get(id))!.attempts))
    expect(new Set(counts)).toEqual(new Set([1]))
  })

  test('does not keep the buyer waiting longer than the first attempt may take', async () => {
    const { deliver, settlement, stateOf } = await setup({ firstAttemptWaitMs: 1, attemptTimeoutMs: 60_000 })
    settlement.plan.push({ moves: false, answer: 'hang' })
    const { payment, txHash } = await deliver()
    expect(txHash).toBeUndefined()
    expect(await stateOf(payment.id)).toBe('owed')
  })

  test('of a payment whose agent failed never begins', async () => {
    const { settler, paid, settlement, payments, exchanges, clock, pass } = await setup()
    const payment = paid()
    await settler.claim(payment)
    await settler.void(payment.id, 'the agent failed', exchangeOf(payment, clock.now(), { output: undefined }))
    await pass(600_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'voided', error: 'the agent failed', attempts: 0 })
    expect(await exchanges.paidOutput(payment.id)).toBeUndefined()
    expect(settlement.attempts).toEqual([])
  })

  test('that is done first (--settle-first) says only whether it is done', async () => {
    const { settler, paid, settlement, stateOf } = await setup()
    const payment = paid({ task: 'task' })
    await settler.claim(payment)
    expect(await settler.settleFirst(payment)).toMatch(/^0x/)
    settlement.plan.push(refusal)
    const second = paid({ task: 'task' })
    await settler.claim(second)
    expect(await settler.settleFirst(second)).toBeUndefined()
    await until(async () => (await stateOf(second.id)) === 'unsettled')
  })
})

describe('a failing facilitator', () => {
  test('D40: is tried again after some 5, 20 and 60 s and at the end of the window, and five times at most', async () => {
    const { deliver, settlement, clock, pass, payments } = await setup()
    settlement.usual = unclear
    const start = clock.now()
    const { payment } = await deliver()
    const attemptsAfter = []
    // The window ends after 180 s.
    for (const second of [5, 20, 60, 167.5, 175]) {
      await pass(start + second * 1000 - 1 - clock.now(), payment.id)
      const before = settlement.attempts.length
      await pass(1, payment.id)
      attemptsAfter.push([before, settlement.attempts.length])
    }
    expect(attemptsAfter).toEqual([
      [1, 2],
      [2, 3],
      [3, 4],
      [4, 5],
      [5, 5],
    ])
    expect(await payments.get(payment.id)).toMatchObject({ state: 'owed', attempts: 5 })
    await pass(80_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'unsettled', error: 'expired unpaid: no answer' })
    expect(settlement.attempts).toHaveLength(5)
  })

  test('without a chain to ask ends the payment after the fifth attempt', async () => {
    const { deliver, settlement, pass, payments } = await setup({ chain: false })
    settlement.usual = unclear
    const { payment } = await deliver()
    await pass(170_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'unsettled', error: 'no answer', attempts: 5 })
  })

  test('that refuses for good is not asked again', async () => {
    const { deliver, settlement, pass, payments } = await setup()
    settlement.usual = refusal
    const { payment } = await deliver()
    await until(async () => (await payments.get(payment.id))?.state === 'unsettled')
    await pass(600_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({ attempts: 1, error: 'the facilitator refuses: no money' })
    expect(settlement.attempts).toHaveLength(1)
  })

  test('that recovers is paid through', async () => {
    const { deliver, settlement, pass, payments } = await setup()
    settlement.plan.push(unclear, { moves: false, answer: 'hang' }, unclear)
    const { payment, txHash } = await deliver()
    expect(txHash).toBeUndefined()
    await pass(65_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'settled', attempts: 4 })
  })

  test('that cannot be reached for longer than five attempts would take is paid through when it is back', async () => {
    const { deliver, settlement, pass, payments } = await setup()
    settlement.usual = unreached
    const { payment, txHash } = await deliver()
    expect(txHash).toBeUndefined()
    await pass(60_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'owed', attempts: 0, unclear: false })
    settlement.usual = unclear
    settlement.plan.push(unreached, unclear, unreached)
    await pass(15_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'owed', unclear: true })
    settlement.usual = { moves: true, answer: 'the transaction' }
    await pass(15_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'settled' })
  })

  test('D40: that is up and says that it is down is asked again while the chain shows that nothing moved', async () => {
    const { deliver, settlement, pass, payments } = await setup()
    settlement.usual = isDown
    const { payment } = await deliver()
    await pass(150_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'owed', attempts: 0, unclear: true })
    expect(settlement.attempts.length).toBeGreaterThan(SETTLEMENT_ATTEMPTS_MAX)
    settlement.usual = { moves: true, answer: 'the transaction' }
    await pass(10_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'settled', attempts: 1 })
  })

  test('D40 T13: that says it is down and has settled all the same is not asked again', async () => {
    const { deliver, settlement, pass, payments } = await setup()
    settlement.plan.push({ ...isDown, moves: true })
    const { payment } = await deliver()
    await pass(10_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'settled', attempts: 1 })
    expect(settlement.attempts).toHaveLength(1)
  })

  test.each(['no RPC is configured', 'the RPC is down as well'])(
    'D40: that says it is down while %s is asked five times over the whole window',
    async (what) => {
      const { deliver, settlement, pass, payments } = await setup({ chain: what !== 'no RPC is configured' })
      settlement.usual = isDown
      settlement.chainIsDown = true
      const { payment } = await deliver()
      await pass(150_000, payment.id)
      expect(await payments.get(payment.id)).toMatchObject({ state: 'owed', attempts: 4 })
      settlement.usual = { moves: true, answer: 'the transaction' }
      settlement.chainIsDown = false
      await pass(25_000, payment.id)
      expect(await payments.get(payment.id)).toMatchObject({ state: 'settled', attempts: 5 })
    },
  )

  test('that is never reached leaves the payment unsettled at the end of its window, with nothing to ask the chain', async () => {
    const { deliver, settlement, pass, payments } = await setup()
    settlement.usual = unreached
    const { payment } = await deliver()
    await pass(600_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'unsettled', attempts: 0, error: 'nobody there' })
  })

  test('that is not configured leaves the payment owed, and says what to do', async () => {
    const clock = new HandClock()
    const payments = createPayments(openDatabase({ path: ':memory:' }))
    const deps = { clock, logger: silentLogger, payments, facilitator: undefined, chance: () => 0 }
    const settler = new Settler({}, deps)
    started.push(settler)
    const payment = claim(clock.now())
    await settler.claim(payment)
    expect(await settler.deliver(payment, exchangeOf(payment, clock.now()))).toBeUndefined()
    await until(async () => (await payments.get(payment.id))?.error)
    expect(await payments.get(payment.id)).toMatchObject({
      state: 'owed',
      error: 'no facilitator is configured: set FACILITATOR_URL',
    })
  })
})

describe('T13: an ambiguous settlement', () => {
  const paidAnyway: [string, Settling['answer']][] = [
    ['a time-out', 'hang'],
    ['no clear answer', { kind: 'unclear', reason: 'success without a hash' }],
    ['the hash of another transaction', { kind: 'settled', txHash: randomHex() }],
  ]
  test.each(paidAnyway)('that paid and ended in %s is found on chain and not tried again', async (_what, answer) => {
    const { deliver, settlement, pass, payments } = await setup()
    settlement.plan.push({ moves: true, answer })
    const { payment } = await deliver()
    await pass(5_000, payment.id)
    const { from, nonce } = payment.signed.authorization
    const use = settlement.useOf(from, nonce)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'settled', txHash: (use as { txHash: Hex }).txHash })
    expect(settlement.attempts).toHaveLength(1)
  })

  test('that named a hash and did not pay is tried again', async () => {
    const { deliver, settlement, pass, payments } = await setup()
    const lie = randomHex()
    settlement.plan.push({ moves: false, answer: { kind: 'settled', txHash: lie } })
    const { payment } = await deliver()
    await pass(1_999, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'owed', txHash: lie })
    await pass(10_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'settled', attempts: 2 })
    expect((await payments.get(payment.id))?.txHash).not.toBe(lie)
  })

  test('whose second attempt is refused because the first has paid, is settled', async () => {
    const { deliver, settlement, pass, payments } = await setup()
    settlement.plan.push(unclear, { ...refusal, moves: true })
    const { payment } = await deliver()
    await pass(5_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'settled', attempts: 2 })
  })

  test('whose second attempt is refused while the chain is down, is decided when it is up again', async () => {
    const { deliver, settlement, pass, payments } = await setup()
    settlement.chainIsDown = true
    settlement.plan.push({ ...unclear, moves: true })
    settlement.usual = refusal
    const { payment } = await deliver()
    await pass(175_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'owed', attempts: 5 })
    settlement.chainIsDown = false
    await pass(60_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'settled' })
  })

  test('whose second attempt is refused, and that did not pay, is unsettled', async () => {
    const { deliver, settlement, pass, payments } = await setup()
    settlement.plan.push(unclear, refusal)
    const { payment } = await deliver()
    await pass(5_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'unsettled', attempts: 2 })
  })

  test('with a chain that cannot be asked for a day after its window ends as unknown', async () => {
    const { deliver, settlement, clock, pass, payments, log } = await setup()
    settlement.chainIsDown = true
    settlement.usual = unclear
    const { payment } = await deliver()
    await pass(175_000, payment.id)
    clock.advance(25 * 60 * 60 * 1000)
    await until(async () => (await payments.get(payment.id))?.state === 'unsettled')
    expect(await payments.get(payment.id)).toMatchObject({ error: expect.stringContaining('outcome unknown') })
    expect(settlement.attempts).toHaveLength(5)
    expect(log).toContain('a payment could not be settled')
  })
})

describe('T6: a buyer that', () => {
  test('cancels the authorization after the run is not charged, and the operator is told why', async () => {
    const { deliver, settlement, pass, payments, paid } = await setup()
    const payment = paid()
    const { from, nonce } = payment.signed.authorization
    settlement.plan.push(unclear)
    settlement.setUse(from, nonce, { state: 'canceled' })
    await deliver(payment)
    await pass(6_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({
      state: 'unsettled',
      error: expect.stringContaining('canceled'),
    })
    // The chain is asked before the first attempt (D50).
    expect(settlement.attempts).toHaveLength(0)
  })
  test('spends the nonce on another transfer is found out', async () => {
    const { deliver, settlement, pass, payments, paid } = await setup()
    const payment = paid()
    const { from, nonce } = payment.signed.authorization
    settlement.plan.push(unclear)
    settlement.setUse(from, nonce, {
      state: 'used',
      txHash: randomHex(),
      transfer: { to: from as Hex, value: 10_000n },
    })
    await deliver(payment)
    await pass(6_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({
      state: 'unsettled',
      error: expect.stringContaining('another transfer'),
    })
  })
})

describe('T17: a restart', () => {
  test('voids what was running and settles what is owed at once, with the attempts of before counted', async () => {
    const { settler, paid, settlement, reopen, payments, clock, pass } = await setup({ firstAttemptWaitMs: 1 })
    const [running, owed] = [paid(), paid()]
    settlement.plan.push({ moves: false, answer: 'hang' })
    await settler.claim(running)
    await settler.claim(owed)
    await settler.deliver(owed, exchangeOf(owed, clock.now()))
    expect(await payments.get(owed.id)).toMatchObject({ state: 'owed', attempts: 1 })
    await settler.stop()
    await reopen()
    expect(await payments.get(running.id)).toMatchObject({
      state: 'voided',
      error: expect.stringContaining('not charged'),
    })
    await until(() => settlement.attempts.length === 2)
    await pass(2_000, owed.id)
    expect(await payments.get(owed.id)).toMatchObject({ state: 'settled', attempts: 2 })
    expect(settlement.attempts).toEqual([owed.signed.authorization.nonce, owed.signed.authorization.nonce])
  })

  test('does not try a payment again that the attempt of before has paid', async () => {
    const { settler, paid, settlement, reopen, payments, clock } = await setup({ firstAttemptWaitMs: 1 })
    settlement.plan.push({ moves: true, answer: 'hang' })
    const payment = paid()
    await settler.claim(payment)
    await settler.deliver(payment, exchangeOf(payment, clock.now()))
    await settler.stop()
    await reopen()
    await until(async () => (await payments.get(payment.id))?.state === 'settled')
    expect(settlement.attempts).toHaveLength(1)
  })

  test('never tries a sixth time', async () => {
    const { deliver, settler, settlement, reopen, pass, payments } = await setup()
    settlement.usual = unclear
    const { payment } = await deliver()
    await pass(21_000, payment.id)
    await settler.stop()
    for (let restart = 0; restart < 3; restart++) {
      const again = await reopen()
      await pass(50_000, payment.id)
      await again.stop()
    }
    expect(settlement.attempts).toHaveLength(5)
    expect(await payments.get(payment.id)).toMatchObject({ attempts: 5 })
  })
})

test.each([
  ['has no money', 'invalid_exact_evm_insufficient_balance', true],
  ['has no funds', 'insufficient_funds', true],
  ['is asked by a seller that names a wrong token', 'invalid_exact_evm_token_name_mismatch', false],
  ['is asked by a seller that names a wrong account', 'invalid_exact_evm_recipient_mismatch', false],
])('D45, T28: a payer that %s is blamed for a refusal, or not: %s, %s', async (_, reason, blamed) => {
  const { deliver, settlement, payments } = await setup()
  settlement.usual = { moves: false, answer: { kind: 'refused', reason: `the facilitator refuses: ${reason}` } }
  const { payment } = await deliver()
  await until(async () => (await payments.get(payment.id))?.state === 'unsettled')
  expect(await payments.get(payment.id)).toMatchObject({ blamed })
})

test('T16: after the clock was set back an hour what is owed is still settled', async () => {
  const { deliver, settlement, clock, payments } = await setup()
  settlement.plan.push(unclear)
  const { payment } = await deliver()
  clock.advance(-60 * 60 * 1000)
  await until(
    async () => (await payments.get(payment.id))?.state === 'owed' && (await payments.get(payment.id))?.txHash,
  )
  clock.advance(2_000)
  await until(async () => (await payments.get(payment.id))?.state === 'settled')
})

test('T16: with a full disk no attempt is made that is not counted, and the outbox is not looked at without pause', async () => {
  const database = openDatabase({ path: ':memory:' })
  const real = createPayments(database)
  let failures = 0
  const { deliver, settlement, clock, log } = await setup({
    payments: {
      ...real,
      save: (progress, now) => {
        if (progress.attempts !== 2) return real.save(progress, now)
        failures++
        return Promise.reject(new Error('disk full'))
      },
    },
  })
  settlement.plan.push(unclear)
  const { payment } = await deliver()
  await until(async () => (await real.get(payment.id))?.error)
  clock.advance(5_000)
  await until(() => failures > 0)
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
  expect(failures).toBe(1)
  expect(log).toContain('settlement step failed')
  expect(settlement.attempts).toHaveLength(1)
})

test('T6 a payment that settles while the outbox is read is not attempted again', async () => {
  const database = openDatabase({ path: ':memory:' })
  const real = createPayments(database)
  let isRead = false
  const { deliver, settlement, clock } = await setup({
    chain: false,
    payments: {
      ...real,
      async due(...limits) {
        const read = await real.due(...limits)
        for (const { id } of read) await real.save({ id, state: 'settled', txHash: randomHex() }, clock.now())
        isRead ||= read.length > 0
        return read
      },
    },
  })
  settlement.plan.push(unclear)
  const { payment } = await deliver()
  await until(async () => (await real.get(payment.id))?.error)
  clock.advance(5_000)
  await until(() => isRead)
  // An attempt would begin after its step is stored, which waits for others to share a commit.
  await new Promise((resolve) => setTimeout(resolve, 50))
  expect(settlement.attempts).toHaveLength(1)
})

test('a stop waits for the look at the outbox that is under way, and no step follows it', async () => {
  const real = createPayments(openDatabase({ path: ':memory:' }))
  const gate = Promise.withResolvers<void>()
  let isReading = false
  const { deliver, settlement, clock, settler } = await setup({
    payments: {
      ...real,
      async due(...limits) {
        const read = await real.due(...limits)
        if (read.length === 0) return read
        isReading = true
        await gate.promise
        return read
      },
    },
  })
  settlement.plan.push(unclear)
  const { payment } = await deliver()
  await until(async () => (await real.get(payment.id))?.error)
  clock.advance(5_000)
  await until(() => isReading)
  let isStopped = false
  const stopped = settler.stop().then(() => {
    isStopped = true
  })
  await new Promise((resolve) => setTimeout(resolve, 20))
  expect(isStopped).toBe(false)
  gate.resolve()
  await stopped
  expect(settlement.attempts).toHaveLength(1)
})

test('an outbox that cannot be read is told, and ends neither the process nor the settler', async () => {
  const database = openDatabase({ path: ':memory:' })
  const real = createPayments(database)
  let broken = 0
  const { log, deliver, pass, payments } = await setup({
    payments: {
      ...real,
      nextDueAt: () => {
        if (broken++ === 0) throw new Error('disk I/O error')
        return real.nextDueAt()
      },
    },
  })
  await until(() => log.includes('the outbox could not be read'))
  const { payment } = await deliver()
  await pass(2_000, payment.id)
  expect((await payments.get(payment.id))?.state).toBe('settled')
})

test('of many payments that are owed, a few are settled at a time, each once', async () => {
  const { settlement, settler, paid, reopen, payments, clock } = await setup({ firstAttemptWaitMs: 1 })
  let now = 0
  let most = 0
  const settle = settlement.facilitator.settle
  settlement.usual = { moves: false, answer: 'hang' }
  const all = Array.from({ length: 60 }, (_, seed) => paid({ wallet: testWallet(seed + 1) }))
  await Promise.all(
    all.map(async (payment) => {
      await settler.claim(payment)
      await settler.deliver(payment, exchangeOf(payment, clock.now()))
    }),
  )
  await settler.stop()
  settlement.attempts.length = 0
  settlement.usual = { moves: true, answer: 'the transaction' }
  settlement.facilitator.settle = async (...args) => {
    most = Math.max(most, ++now)
    await new Promise((resolve) => setImmediate(resolve))
    now--
    return settle(...args)
  }
  await reopen()
  await until(async () =>
    (await Promise.all(all.map(async ({ id }) => (await payments.get(id))?.txHash))).every(Boolean),
  )
  clock.advance(2_000)
  await until(async () =>
    (await Promise.all(all.map(async ({ id }) => (await payments.get(id))?.state === 'settled'))).every(Boolean),
  )
  expect(most).toBeLessThanOrEqual(32)
  expect(new Set(settlement.attempts).size).toBe(60)
  expect(settlement.attempts).toHaveLength(60)
})

test('whatever facilitator and chain do, a payment is tried five times at most and ends as the chain has it', async () => {
  const answers = fc.constantFrom<Settling['answer']>('the transaction', 'hang', unclear.answer, refusal.answer, {
    kind: 'settled',
    txHash: randomHex(),
  })
  const settlings = fc.array(fc.record({ moves: fc.boolean(), answer: answers }), { minLength: 6, maxLength: 6 })
  const outages = fc.array(fc.boolean(), { minLength: 12, maxLength: 12 })
  await fc.assert(
    fc.asyncProperty(settlings, outages, async (plan, down) => {
      const { deliver, settlement, pass, payments, settler, clock } = await setup({ attemptTimeoutMs: 1 })
      settlement.plan.push(...plan)
      const { payment } = await deliver()
      for (const isDown of down) {
        settlement.chainIsDown = isDown
        await pass(5_000, payment.id)
      }
      settlement.chainIsDown = false
      await pass(Number(payment.signed.authorization.validBefore) * 1000 + 61_000 - clock.now(), payment.id)
      const { from, nonce } = payment.signed.authorization
      const used = settlement.useOf(from, nonce).state === 'used'
      const end = await payments.get(payment.id)
      expect(end?.state).toBe(used ? 'settled' : 'unsettled')
      expect(settlement.attempts.length).toBeLessThanOrEqual(SETTLEMENT_ATTEMPTS_MAX)
      expect(settlement.attempts.length).toBe(end?.attempts)
      await settler.stop()
    }),
    { numRuns: 40 },
  )
})

describe('D31 time', () => {
  test('a chain that stalls is waited for: what it settles as it catches up is booked as settled', async () => {
    const { deliver, settlement, payments, clock, stateOf, pass } = await setup()
    settlement.usual = unclear
    const { payment } = await deliver()
    const { authorization } = payment.signed
    const endMs = Number(authorization.validBefore) * 1000
    settlement.blockTimeMs = endMs - 60_000
    await pass(endMs - clock.now() + 120_000, payment.id)
    expect(await stateOf(payment.id)).toBe('owed')
    settlement.blockTimeMs = endMs + 120_000
    const txHash = settlement.pay(authorization)
    await pass(120_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'settled', txHash })
  })

  test('a chain that is past the window and shows nothing ends it as expired', async () => {
    const { deliver, settlement, payments, clock, pass } = await setup()
    settlement.usual = unclear
    const { payment } = await deliver()
    const endMs = Number(payment.signed.authorization.validBefore) * 1000
    await pass(endMs - clock.now() + 120_000, payment.id)
    expect(await payments.get(payment.id)).toMatchObject({
      state: 'unsettled',
      error: expect.stringContaining('expired'),
    })
  })

  test('a wall clock that is set back by minutes does not put the next attempt off', async () => {
    const { deliver, settlement, clock, stateOf } = await setup()
    settlement.plan.push(unclear)
    const { payment } = await deliver()
    expect(await stateOf(payment.id)).toBe('owed')
    clock.jump(-300_000)
    await until(async () => (await stateOf(payment.id)) === 'settled' || clock.advance(100))
    expect(clock.monotonic()).toBeLessThan(60_000)
  })

  test('nor does one that is set back by less than a minute (T16)', async () => {
    const { deliver, settlement, clock, stateOf, payments } = await setup()
    settlement.plan.push(unclear)
    const { payment } = await deliver()
    await until(async () => (await payments.get(payment.id))?.error)
    clock.jump(-50_000)
    await until(async () => (await stateOf(payment.id)) === 'settled' || clock.advance(100))
    expect(clock.monotonic()).toBeLessThan(30_000)
  })

  test.each([
    ['was never reached', unreached, 20],
    ['was never reached', unreached, 3 * 24 * 60],
    ['gave no answer', unclear, 20],
    ['gave no answer', unclear, 3 * 24 * 60],
  ])(
    'T16: a facilitator %s, and the clock runs ahead by a while: what the chain can still settle is not given up',
    async (_, answer, minutes) => {
      const { deliver, settlement, clock, stateOf, payments } = await setup()
      settlement.blockTimeMs = clock.now()
      settlement.usual = answer
      const { payment } = await deliver()
      await until(async () => (await payments.get(payment.id))?.error)
      clock.jump(minutes * 60_000)
      const isJudged = async () =>
        ((await payments.get(payment.id))!.nextAttemptAt ?? Number.POSITIVE_INFINITY) > clock.now()
      await until(isJudged)
      expect(await stateOf(payment.id)).toBe('owed')
      clock.jump(-minutes * 60_000)
      settlement.usual = { moves: true, answer: 'the transaction' }
      await until(async () => (await stateOf(payment.id)) === 'settled' || clock.advance(100))
      expect(clock.monotonic()).toBeLessThan(60_000)
    },
  )
})

describe('T13 a reorganization of the chain', () => {
  const unused = { state: 'unused' } as const

  test('that takes a settlement back within the window: the payment is owed, and settled again', async () => {
    const { deliver, settlement, payments, clock, stateOf, pass } = await setup()
    const { payment } = await deliver()
    await pass(2_000, payment.id)
    expect(await stateOf(payment.id)).toBe('settled')
    const first = (await payments.get(payment.id))!.txHash
    const { authorization } = payment.signed
    settlement.setUse(authorization.from, authorization.nonce, unused)
    await until(() => settlement.attempts.length === 2 || clock.advance(1_000))
    expect(clock.now()).toBeLessThan(Number(authorization.validBefore) * 1000)
    await until(async () => (await stateOf(payment.id)) === 'settled' || clock.advance(1_000))
    expect((await payments.get(payment.id))!.txHash).not.toBe(first)
  })

  test('that takes it back after the window: the books say that it was not paid', async () => {
    const { deliver, settlement, payments, clock, stateOf, pass } = await setup()
    const { payment } = await deliver()
    await pass(2_000, payment.id)
    const { from, nonce, validBefore } = payment.signed.authorization
    const endMs = Number(validBefore) * 1000
    // The look within the window finds it.
    const looks = () => payments.nextLookAt()
    await until(async () => (await looks()) === endMs + 60_000 || clock.advance(1_000))
    expect(clock.now()).toBeLessThan(endMs)
    settlement.setUse(from, nonce, unused)
    clock.set(endMs + 60_000)
    await until(async () => (await stateOf(payment.id)) === 'unsettled')
    expect(settlement.attempts).toHaveLength(1)
  })

  test('that moves it to another transaction: the ledger names that one, and then looks no more', async () => {
    const { deliver, settlement, payments, clock, stateOf, pass } = await setup()
    const { payment } = await deliver()
    await pass(2_000, payment.id)
    const { from, to, nonce, value, validBefore } = payment.signed.authorization
    const txHash = randomHex()
    settlement.setUse(from, nonce, { state: 'used', txHash, transfer: { to, value } })
    clock.set(Number(validBefore) * 1000 + 60_000)
    await until(
      async () => (await payments.get(payment.id))!.txHash === txHash && (await payments.nextLookAt()) === undefined,
    )
    expect(await stateOf(payment.id)).toBe('settled')
  })

  test('T15 is not seen in a chain that does not answer', async () => {
    const { deliver, settlement, payments, clock, stateOf, pass } = await setup()
    const { payment } = await deliver()
    await pass(2_000, payment.id)
    settlement.chainIsDown = true
    const before = (await payments.nextLookAt())!
    clock.set(before)
    await until(async () => (await payments.nextLookAt()) === before + 15_000)
    expect(await stateOf(payment.id)).toBe('settled')
  })
})
