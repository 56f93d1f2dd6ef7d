import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { STEPS_AT_ONCE_MAX } from '../../schema/limits.ts'
import type { StepStatus } from '../../schema/workflow.ts'
import { judgeFunds } from './funds.ts'
import { type Attempt, isFinalWorkflow, nextMove, statusOf, stepsToBegin, stepsToSkip } from './progress.ts'

type StepProgress = Parameters<typeof statusOf>[0][number]
const steps = (...list: [string, StepStatus, string[]?][]): StepProgress[] =>
  list.map(([id, status, dependsOn = []]) => ({ id, status, dependsOn }))
const ids = (list: readonly StepProgress[]) => list.map(({ id }) => id)

describe('D20: what begins', () => {
  test('is what waits for nothing that is not completed', () => {
    const graph = steps(['a', 'completed'], ['b', 'running'], ['c', 'pending', ['a']], ['d', 'pending', ['a', 'b']])
    expect(ids(stepsToBegin(graph))).toEqual(['c'])
  })

  test('is bounded', () => {
    const graph = steps(...Array.from({ length: 20 }, (_, index): [string, StepStatus] => [`${index}`, 'pending']))
    expect(stepsToBegin(graph)).toHaveLength(STEPS_AT_ONCE_MAX)
    graph[0]!.status = 'running'
    expect(stepsToBegin(graph)).toHaveLength(STEPS_AT_ONCE_MAX - 1)
  })

  test('is nothing once a step has failed: the others are skipped', () => {
    const graph = steps(['a', 'failed'], ['b', 'pending'], ['c', 'running'], ['d', 'pending', ['c']])
    expect(stepsToBegin(graph)).toEqual([])
    expect(ids(stepsToSkip(graph))).toEqual(['b', 'd'])
  })
})

test('a workflow driven by any outcomes begins nothing too early, ends, and ends as its steps say', () => {
  const graph = fc.integer({ min: 1, max: 10 }).chain((count) =>
    fc.tuple(
      ...Array.from({ length: count }, (_, index) =>
        fc.record({
          before: fc.subarray([...Array(index).keys()]),
          ends: fc.constantFrom('completed', 'failed', 'completed'),
        }),
      ),
    ),
  )
  fc.assert(
    fc.property(graph, fc.infiniteStream(fc.nat()), (nodes, choices) => {
      const state: StepProgress[] = nodes.map(({ before }, index) => ({
        id: `${index}`,
        status: 'pending',
        dependsOn: before.map(String),
      }))
      for (let rounds = 0; rounds < 100; rounds++) {
        for (const step of stepsToSkip(state)) step.status = 'skipped'
        for (const step of stepsToBegin(state)) {
          expect(step.dependsOn.map((id) => state[Number(id)]!.status)).toEqual(step.dependsOn.map(() => 'completed'))
          step.status = 'running'
        }
        const running = state.filter(({ status }) => status === 'running')
        expect(statusOf(state) === 'running').toBe(running.length > 0)
        if (running.length === 0) break
        const next = running[choices.next().value! % running.length]!
        next.status = nodes[Number(next.id)]!.ends as StepStatus
      }
      for (const step of stepsToSkip(state)) step.status = 'skipped'
      expect(isFinalWorkflow(statusOf(state))).toBe(true)
      const everyOneCompleted = state.every(({ status }) => status === 'completed')
      expect(statusOf(state)).toBe(everyOneCompleted ? 'completed' : 'failed')
    }),
    { numRuns: 300 },
  )
})

const failed = (code: string, retryable: boolean, signed?: Attempt['signed']): Attempt => {
  return { status: 'failed', error: { code, message: 'm', retryable }, signed }
}
const chances = (tries: number, retries: number, fallbacksLeft = 0) => ({ tries, retries, fallbacksLeft })

const again = (...of: Parameters<typeof chances>) => ({ ...chances(...of), rebuy: true })
const saidFailed = failed('EXECUTION_FAILED', false, 'reserved')

describe('D20, D33: what follows an attempt', () => {
  test.each<[string, Attempt, ReturnType<typeof chances>, string]>([
    ['goes on', { status: 'executing', error: undefined, signed: 'reserved' }, chances(1, 3, 3), 'wait'],
    ['has not begun', { status: 'pending', error: undefined, signed: undefined }, chances(1, 3, 3), 'wait'],
    ['brought a result', { status: 'completed', error: undefined, signed: 'spent' }, chances(1, 3, 3), 'complete'],
    ['was canceled', { status: 'cancelled', error: undefined, signed: 'reserved' }, chances(1, 3, 3), 'cancel'],
    ['failed for good', failed('AGENT_FAILED', false), chances(1, 3), 'fail'],
    ['may pass, unsigned', failed('SELLER_UNREACHABLE', true), chances(1, 1), 'retry'],
    ['may pass, released', failed('EXECUTION_FAILED', true, 'released'), chances(1, 1), 'retry'],
    ['may pass, and was tried as often as allowed', failed('SELLER_UNREACHABLE', true), chances(2, 1), 'fail'],
    ['may pass, and could still be settled', failed('EXECUTION_FAILED', true, 'reserved'), chances(1, 1), 'wait'],
    ['could still be settled, and no try is left', failed('EXECUTION_FAILED', true, 'reserved'), chances(2, 1), 'fail'],
    [
      'is said to have failed by its seller',
      failed('EXECUTION_FAILED', false, 'reserved'),
      chances(1, 0, 1),
      'fall back',
    ],
    [
      'may pass later, and another may do it now',
      failed('EXECUTION_FAILED', true, 'reserved'),
      chances(1, 5, 1),
      'fall back',
    ],
    ['failed unsigned, with another to ask', failed('OVER_PRICE', false), chances(1, 0, 2), 'fall back'],
    ['failed by our word only, signed', failed('LISTING_MISMATCH', false, 'reserved'), chances(1, 0, 2), 'fail'],
    ['has cost the money', failed('SELLER_FAILED', false, 'spent'), chances(1, 5, 5), 'fail'],
    ['has cost the money, and may pass', failed('EXECUTION_FAILED', true, 'spent'), chances(1, 5, 5), 'fail'],
    ['failed, and may be paid for (D45)', { ...saidFailed, settlesFirst: true }, chances(1, 5, 5), 'wait'],
    ['may settle later (D45)', failed('SETTLEMENT_FAILED', false, 'reserved'), chances(1, 0, 1), 'wait'],
    ['may be paid for, by its rule (D45)', { ...saidFailed, settlesFirst: true }, again(1, 5, 5), 'fall back'],
    ['has cost the money, by its rule (D45)', failed('X', false, 'spent'), again(1, 0, 1), 'fall back'],
    ['has cost the money and may pass, by its rule (D45)', failed('X', true, 'spent'), again(1, 1), 'retry'],
    ['has cost the money, by its rule, with nobody left (D45)', failed('X', false, 'spent'), again(1, 1), 'fail'],
    ['may be paid for, by its rule, with nobody left (D33)', failed('X', true, 'reserved'), again(1, 1), 'wait'],
  ])('that %s', (_, attempt, left, kind) => {
    expect(nextMove(attempt, left).kind).toBe(kind)
  })

  test('is tried again later and later', () => {
    const delay = (tries: number) => (nextMove(failed('OVERLOADED', true), chances(tries, 10)) as { inMs: number }).inMs
    expect([1, 2, 3, 4, 5, 6, 10].map(delay)).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000])
  })

  test('is never bought again from the same agent while a signature for it may be settled, nor once it is spent', () => {
    const attempt = fc.record({
      status: fc.constantFrom('pending', 'executing', 'completed', 'failed', 'cancelled'),
      error: fc.option(
        fc.record({
          code: fc.constantFrom('EXECUTION_FAILED', 'SELLER_UNREACHABLE', 'OVER_PRICE', 'constructor'),
          message: fc.constant('m'),
          retryable: fc.boolean(),
        }),
        { nil: undefined },
      ),
      signed: fc.constantFrom(undefined, 'reserved', 'spent', 'released'),
      settlesFirst: fc.boolean(),
    }) as fc.Arbitrary<Attempt>
    const left = fc.record({ tries: fc.integer({ min: 1, max: 5 }), retries: fc.nat(5), fallbacksLeft: fc.nat(2) })
    fc.assert(
      fc.property(attempt, left, (was, may) => {
        const { kind } = nextMove(was, may)
        if (kind === 'retry') {
          expect(was.status).toBe('failed')
          expect(was.error?.retryable).toBe(true)
          expect([undefined, 'released']).toContain(was.signed)
          expect(may.tries).toBeLessThanOrEqual(may.retries)
        }
        if (kind === 'fall back') {
          expect(may.fallbacksLeft).toBeGreaterThan(0)
          expect(was.signed).not.toBe('spent')
          if (was.signed === 'reserved') expect(was.error?.code).toBe('EXECUTION_FAILED')
          if (was.signed === 'reserved') expect(was.settlesFirst).not.toBe(true)
        }
        if (was.status === 'pending' || was.status === 'executing') expect(kind).toBe('wait')
      }),
    )
  })
})

describe('D20: the money', () => {
  const funds = (more: object = {}) =>
    judgeFunds({
      cost: 10n,
      stepMax: undefined,
      nodeMax: 100n,
      budget: undefined,
      spending: { sure: 0n, perhaps: 0n },
      rest: 0n,
      ...more,
    })

  test.each([
    ['no limit', {}, 'buy'],
    ['exactly the step’s limit', { stepMax: 10n }, 'buy'],
    ['exactly the node’s limit', { nodeMax: 10n }, 'buy'],
    ['exactly the budget', { budget: 30n, spending: { sure: 15n, perhaps: 0n }, rest: 5n }, 'buy'],
    ['what is free, and nothing left', { cost: 0n, budget: 0n, rest: 50n }, 'buy'],
    [
      'what was signed for in vain, still in the way',
      { budget: 30n, spending: { sure: 15n, perhaps: 1n }, rest: 5n },
      'wait',
    ],
  ])('allows, or waits: %s', (_, more, verdict) => {
    expect(funds(more)).toBe(verdict)
  })

  test.each([
    ['the step’s limit', { stepMax: 9n }, 'OVER_PRICE'],
    ['the node’s limit', { nodeMax: 9n }, 'OVER_PRICE'],
    ['the budget', { budget: 30n, spending: { sure: 21n, perhaps: 0n } }, 'OVER_BUDGET'],
    ['what the other steps need', { budget: 30n, spending: { sure: 15n, perhaps: 0n }, rest: 6n }, 'OVER_BUDGET'],
  ])('refuses one unit over %s, for good', (_, more, code) => {
    expect(funds(more)).toMatchObject({ code, retryable: false })
  })
})
