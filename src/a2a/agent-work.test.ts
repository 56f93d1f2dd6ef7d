import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { payingTurn } from '../../test/support/a2a-turn.ts'
import { failNext } from '../../test/support/fail-next.ts'
import { unclear } from '../../test/support/fake-settlement.ts'
import { notedCheck } from '../../test/support/noted-check.ts'
import { agentId, requirements, signed } from '../../test/support/payments.ts'
import { until } from '../../test/support/until.ts'
import { TestSeller } from '../../test/support/x402-seller.ts'
import { RunSlotsFull } from '../agents/run-slots.ts'
import { secp256k1 } from '../payments/secp256k1.ts'
import { PayerLimits } from '../protocols/doors/payer-limits.ts'
import { PeerError } from '../protocols/peer-error.ts'
import { paymentKeys as keys } from '../schema/a2a.ts'
import { STRANGER, strangerWith } from '../schema/caller.ts'
import { StoreError } from '../store/store-error.ts'
import { agentWork } from './agent-work.ts'
import type { Turn } from './executor.ts'

let seller: TestSeller
afterEach(() => seller.stop())

/** A turn that pays the seller. */
const paying = (payment = signed(seller.clock.now())) => payingTurn(payment)

test('D39 what is settled and finds no place to run waits for one: its payer is never asked to pay again', async () => {
  seller = await new TestSeller({ settleFirst: true }).start()
  seller.work = async () => {
    seller.work = undefined
    throw new Error('broken once')
  }
  let full = 1
  const { slots } = seller.deps
  const admit = slots.admit.bind(slots)
  let admitted = 0
  slots.admit = (caller) => {
    if (admitted++ > 0 && full-- > 0) throw new RunSlotsFull('all places are taken')
    return admit(caller)
  }
  const outcome = await agentWork(agentId, 'd', seller.deps)(paying(), { working: () => {} })
  expect(outcome).toMatchObject({ kind: 'completed', output: 're: work' })
  expect([full, seller.settlement.attempts.length]).toEqual([-1, 1])
})

test('D39 what is settled and whose result could not be stored is run again when the ledger is back', async () => {
  seller = await new TestSeller({ settleFirst: true }).start()
  failNext(seller.deps.exchanges, 'record')
  const outcome = await agentWork(agentId, 'd', seller.deps)(paying(), { working: () => {} })
  expect(outcome).toMatchObject({ kind: 'completed', output: 're: work' })
  expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([2, 1])
})

test('T23 a task that is settled and whose agent fails again and again says that it is paid for', async () => {
  seller = await new TestSeller({ settleFirst: true }).start()
  seller.work = async () => {
    throw new Error('broken')
  }
  const outcome = await agentWork(agentId, 'd', seller.deps)(paying(), { working: () => {} })
  expect(outcome).toMatchObject({ kind: 'failed', text: expect.stringMatching(/is paid for.*owes/) })
  const { metadata } = outcome as { metadata: Record<string, unknown> }
  expect(metadata[keys.status]).toBe('payment-completed')
  expect(metadata[keys.receipts]).toMatchObject([{ success: true, transaction: expect.stringMatching(/^0x/) }])
  expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([4, 1])
})

test('the signature of a payment is checked once where accounts have limits too', async () => {
  seller = await new TestSeller().start()
  const payers = new PayerLimits(seller.deps)
  const taken = vi.spyOn(payers, 'enter')
  const payment = paying()
  const recovered = vi.spyOn(secp256k1, 'recover')
  onTestFinished(() => recovered.mockRestore())
  const outcome = await agentWork(agentId, 'd', { ...seller.deps, payers })(payment, { working: () => {} })
  expect(outcome).toMatchObject({ kind: 'completed', output: 're: work' })
  expect([recovered.mock.calls.length, taken.mock.calls.length]).toEqual([1, 1])
})

test('T42 payments that the chain shows, used here or made to others, take no place of their payer', async () => {
  seller = await new TestSeller().start()
  const payers = new PayerLimits(seller.deps)
  const work = (payment?: ReturnType<typeof signed>) =>
    agentWork(agentId, 'd', { ...seller.deps, payers })(paying(payment), { working: () => {} })
  const used = signed(seller.clock.now())
  expect(await work(used)).toMatchObject({ kind: 'completed' })
  const others = signed(seller.clock.now(), { requirements: { ...requirements(), payTo: `0x${'2'.repeat(40)}` } })
  for (let replay = 0; replay < 300; replay++) {
    expect(await work(replay % 2 === 0 ? used : others)).toMatchObject({ kind: 'failed' })
  }
  expect(await work()).toMatchObject({ kind: 'completed', output: 're: work' })
})

/** Loses the answer to the next end of a run. The ledger is away until it has been asked `looks` times more. */
function loseEnd({ code, isStored, looks = 2 }: { code: StoreError['code']; isStored: boolean; looks?: number }) {
  const { payments } = seller.deps
  const { deliver, get } = payments
  const away = new StoreError(code, 'the database cannot be reached')
  payments.deliver = async (...end) => {
    payments.deliver = deliver
    if (isStored) await deliver(...end)
    let left = looks
    payments.get = async (id) => {
      if (left-- > 0) throw away
      return get(id)
    }
    throw away
  }
}

test.each([
  ['STORE_WRITE_FAILED', false],
  ['STORE_AWAY', false],
  ['STORE_IN_DOUBT', true],
  ['STORE_IN_DOUBT', false],
] as const)(
  'T23 a paid run whose end met %s (stored: %s) completes its task: its payer never pays again',
  async (code, isStored) => {
    seller = await new TestSeller().start()
    loseEnd({ code, isStored })
    const payment = signed(seller.clock.now())
    const outcome = await agentWork(agentId, 'd', seller.deps)(paying(payment), { working: () => {} })
    expect(outcome).toMatchObject({ kind: 'completed', output: 're: work' })
    expect(seller.runs).toHaveLength(1)
    expect((await seller.payments.get(payment.paymentId))?.state).toMatch(/^(owed|settled)$/)
  },
)

test('a failed run whose end met a ledger that is away is told as any other, and nothing is charged', async () => {
  seller = await new TestSeller().start()
  seller.work = async () => {
    throw new Error('broken')
  }
  loseEnd({ code: 'STORE_AWAY', isStored: false })
  const outcome = await agentWork(agentId, 'd', seller.deps)(paying(), { working: () => {} })
  expect(outcome).toMatchObject({ kind: 'failed', text: expect.stringMatching(/nothing is charged/) })
  expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([1, 0])
})

test.each([
  [
    'never stored: it is asked for again',
    false,
    { kind: 'input-required', text: expect.stringMatching(/nothing was charged/) },
  ],
  [
    'stored: it is void, and nothing is charged',
    true,
    { kind: 'failed', text: expect.stringMatching(/nothing is charged/) },
  ],
] as const)('a payment whose claim was lost and %s', async (_, isStored, expected) => {
  seller = await new TestSeller().start()
  failNext(seller.deps.payments, 'claimExposed', { code: 'STORE_IN_DOUBT', isStored })
  const outcome = await agentWork(agentId, 'd', seller.deps)(paying(), { working: () => {} })
  expect(outcome).toMatchObject(expected)
  expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([0, 0])
})

test.each([
  ['sells nothing yet', new PeerError('OVERLOADED', 'this node has just started'), /just started/],
  ['has no ledger', new StoreError('STORE_AWAY', 'the database cannot be reached'), /ledger/],
])('a payment at a node that %s has begun nothing', async (_, error, text) => {
  seller = await new TestSeller().start()
  seller.deps.agents.find = () => {
    throw error
  }
  const outcome = await agentWork(agentId, 'd', seller.deps)(paying(), { working: () => {} })
  expect(outcome).toEqual({ kind: 'not-begun', text: expect.stringMatching(text) })
})

test('T5 who sends the used payment of another while the ledger is away gets nothing of it', async () => {
  seller = await new TestSeller().start()
  const work = agentWork(agentId, 'd', seller.deps)
  const payment = signed(seller.clock.now())
  expect(await work(paying(payment), { working: () => {} })).toMatchObject({ kind: 'completed' })
  failNext(seller.deps.payments, 'claimExposed', { code: 'STORE_IN_DOUBT' })
  const others = { ...paying(payment), ids: { taskId: 'another', contextId: 'another' } }
  const outcome = await work(others, { working: () => {} })
  expect(outcome).toMatchObject({ kind: 'failed' })
  expect(JSON.stringify(outcome)).not.toContain('re: work')
})

test('T36 the limits of an address hear of a payment that is refused, and of no other', async () => {
  const check = notedCheck()
  seller = await new TestSeller({ blocked: [signed(0).envelope.payer] }).start()
  const work = (turn = paying()) => agentWork(agentId, 'd', seller.deps)({ ...turn, check }, { working: () => {} })
  expect(await work()).toMatchObject({ kind: 'failed', text: expect.stringContaining('refused') })
  expect(check.heard).toEqual(['refused'])
  await seller.stop()
  seller = await new TestSeller().start()
  const turn = paying()
  expect(await work(turn)).toMatchObject({ kind: 'completed' })
  expect(await work(turn)).toMatchObject({ kind: 'failed' })
  expect(check.heard).toEqual(['refused', 'paid'])
})

test('T36 the limits of an address hear of a payment that never settles, and not as one that buys nothing', async () => {
  const check = notedCheck()
  seller = await new TestSeller({ settleFirst: true }).start()
  seller.settlement.usual = { moves: false, answer: { kind: 'refused', reason: 'no money' } }
  const work = agentWork(agentId, 'd', seller.deps)
  expect(await work({ ...paying(), check }, { working: () => {} })).toMatchObject({ kind: 'failed' })
  expect(check.heard).toEqual(['unsettled'])
})

/** A stranger pays, and cancels its authorization while the agent works. */
async function cancelDuringRun(caller: Turn['caller'], more: Partial<Turn> = {}) {
  seller = await new TestSeller().start()
  const payment = signed(seller.clock.now())
  const { from, nonce } = payment.envelope.payload!.authorization
  seller.work = async ({ onOutput }) => {
    onOutput?.('shown')
    seller.settlement.setUse(from, nonce, { state: 'canceled' } as never)
    return 'the result'
  }
  const refusal = { kind: 'refused', reason: 'authorization is used or canceled' } as const
  seller.settlement.usual = { moves: false, answer: refusal }
  const turn = { ...paying(payment), caller, ...more }
  return { outcome: await agentWork(agentId, 'd', seller.deps)(turn, { working: () => {} }), payment }
}

test.each([['without a secret', STRANGER] as const, ['with one', strangerWith('ab')] as const])(
  'T6 a stranger %s whose payment is canceled while the agent works gets no result, and is told so',
  async (_what, stranger) => {
    const { outcome, payment } = await cancelDuringRun(stranger)
    expect(outcome).toMatchObject({ kind: 'failed', text: expect.stringMatching(/kept back, nothing was charged/) })
    expect(JSON.stringify(outcome)).not.toContain('the result"')
    expect((outcome as { metadata: object }).metadata).toMatchObject({ [keys.error]: 'SETTLEMENT_FAILED' })
    expect((await seller.payments.get(payment.paymentId))?.state).toBe('unsettled')
  },
)

test('T6 a stranger that watches the output pays before it sees any', async () => {
  const shown: string[] = []
  await cancelDuringRun(STRANGER, { onOutput: (text) => void shown.push(text) })
  expect([shown, seller.runs.length, seller.settlement.attempts.length]).toEqual([[], 0, 1])
})

test('a stranger waits for a payment that settles slowly, and gets its result with the transaction', async () => {
  seller = await new TestSeller().start()
  const { usual } = seller.settlement
  seller.settlement.usual = unclear
  const payment = signed(seller.clock.now())
  const outcome = agentWork(agentId, 'd', seller.deps)({ ...paying(payment), caller: STRANGER }, { working: () => {} })
  await until(async () => (await seller.payments.get(payment.paymentId))?.state === 'owed')
  seller.settlement.usual = usual
  await until(async () => {
    seller.clock.advance(500)
    return (await seller.payments.get(payment.paymentId))?.state === 'settled'
  })
  expect(await outcome).toMatchObject({
    ...{ kind: 'completed', output: 're: work', metadata: { [keys.status]: 'payment-completed' } },
  })
})
