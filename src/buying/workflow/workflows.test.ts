import fc from 'fast-check'
import { afterEach, describe, expect, test } from 'vitest'
import { endProcess } from '../../../test/support/end-process.ts'
import { until } from '../../../test/support/until.ts'
import { type End, WorkflowBench } from '../../../test/support/workflow-bench.ts'
import type { CreateWorkflowBody, WorkflowRecord } from '../../schema/workflow.ts'

const benches: WorkflowBench[] = []
afterEach(async () => {
  await Promise.all(benches.splice(0).map(({ workflows }) => workflows.stop()))
})

async function bench(options: ConstructorParameters<typeof WorkflowBench>[0] = {}): Promise<WorkflowBench> {
  const made = new WorkflowBench(options)
  benches.push(made)
  if (options.market === undefined) for (const id of ['a', 'b', 'c', 'd']) made.list(id)
  await made.workflows.start()
  return made
}
/** The same node, whose process has died and been started again. */
async function restarted(before: WorkflowBench): Promise<WorkflowBench> {
  await before.workflows.stop()
  return bench({ database: endProcess(before.database), clock: before.clock, market: before.market })
}
const openSteps = async (on: WorkflowBench) => (await on.open()).map(({ stepId }) => stepId)
const whenOpen = (on: WorkflowBench, ...steps: string[]) =>
  until(async () => JSON.stringify(await openSteps(on)) === JSON.stringify(steps) || undefined)
const step = (id: string, more: object = {}) => ({ id, agent_id: id, ...more })
const statuses = ({ status, steps }: WorkflowRecord) => [status, ...steps.map((one) => one.status)]
const settled = (on: WorkflowBench, id: string) => on.workflows.settled(id, { limitMs: 5_000 })
const completed: End = { kind: 'completed' }
const unreachable: End = { kind: 'failed', error: { code: 'SELLER_UNREACHABLE', retryable: true } }

describe('D20: a workflow', () => {
  test('goes through its steps, each given what the one before answered, and ends with the last output', async () => {
    const on = await bench()
    const { id } = await on.create({ agent_ids: ['a', 'b'], name: 'chain' })
    await whenOpen(on, 'step-1')
    expect(await on.workflows.get(id)).toMatchObject({ status: 'running', name: 'chain', input: 'in' })
    await on.end(await on.openFor('step-1'), { kind: 'completed', output: 'one' })
    await whenOpen(on, 'step-2')
    expect(await on.openFor('step-2')).toMatchObject({ agentId: 'b', task: 'one', price: 10_000n, workflowId: id })
    await on.end(await on.openFor('step-2'), { kind: 'completed', output: 'two' })
    const done = await settled(on, id)
    expect(done).toMatchObject({ status: 'completed', output: 'two', estimate: '0.02', spent: '0.02' })
    expect(done.steps).toMatchObject([
      { output: 'one', payment: { amount: '0.01' }, started_at: expect.any(String), ended_at: expect.any(String) },
      { output: 'two', payment: { amount: '0.01' } },
    ])
  })

  test('tells its orders what it wants of payment channels, step by step', async () => {
    const on = await bench()
    const { id } = await on.create({ steps: [step('a', { channel: 'never' }), step('b', { channel: 'always' })] })
    await whenOpen(on, 'a')
    expect((await on.openFor('a')).channelWish).toBe('never')
    await on.end(await on.openFor('a'), completed)
    await whenOpen(on, 'b')
    expect((await on.openFor('b')).channelWish).toBe('always')
    expect((await on.workflows.get(id)).steps.map(({ channel }) => channel)).toEqual(['never', 'always'])
  })

  test('that two processes advance at the same instant has each step begun once', async () => {
    const on = await bench()
    const { id } = await on.create({ agent_ids: ['a', 'b'] })
    await whenOpen(on, 'step-1')
    const other = await bench({ database: on.database, clock: on.clock, market: on.market })
    await on.end(await on.openFor('step-1'), completed)
    await other.wake()
    expect(await openSteps(on)).toEqual(['step-2'])
    expect((await on.workflows.get(id)).steps[1]?.order_ids).toHaveLength(1)
    await on.end(await on.openFor('step-2'), completed)
    await other.wake()
    expect(statuses(await settled(other, id))).toEqual(['completed', 'completed', 'completed'])
  })

  test('does side by side what does not depend on each other', async () => {
    const on = await bench()
    const { id } = await on.create({
      steps: [
        step('a'),
        step('b', { depends_on: ['a'] }),
        step('c', { depends_on: ['a'] }),
        step('d', { depends_on: ['b', 'c'] }),
      ],
    })
    await whenOpen(on, 'a')
    await on.end(await on.openFor('a'), completed)
    await whenOpen(on, 'b', 'c')
    await on.end(await on.openFor('c'), { kind: 'completed', output: 'C' })
    await on.end(await on.openFor('b'), { kind: 'completed', output: 'B' })
    await whenOpen(on, 'd')
    expect((await on.openFor('d')).task).toBe('B\n\nC')
    await on.end(await on.openFor('d'), completed)
    expect(statuses(await settled(on, id))).toEqual(Array(5).fill('completed'))
  })

  test('that fails begins nothing more, lets what runs end, and keeps its output', async () => {
    const on = await bench()
    const { id } = await on.create({
      steps: [step('a', { depends_on: [] }), step('b'), step('c', { depends_on: ['a'] })],
    })
    await whenOpen(on, 'a', 'b')
    await on.end(await on.openFor('a'), { kind: 'failed', error: { message: 'broke' } })
    await until(async () => (await on.workflows.get(id)).steps[2]?.status === 'skipped')
    expect(statuses(await on.workflows.get(id))).toEqual(['running', 'failed', 'running', 'skipped'])
    await on.end(await on.openFor('b'), { kind: 'completed', output: 'kept' })
    const done = await settled(on, id)
    expect(statuses(done)).toEqual(['failed', 'failed', 'completed', 'skipped'])
    expect(done).toMatchObject({ error: { code: 'AGENT_FAILED', message: 'broke', step_id: 'a' } })
    expect(done.steps[1]?.output).toBe('kept')
  })

  test('whose outputs have grown too large fails before that step is ordered', async () => {
    const on = await bench()
    const { id } = await on.create({
      steps: [step('a'), step('b', { input: '{{steps.a.output}}'.repeat(10) })],
    })
    await whenOpen(on, 'a')
    await on.end(await on.openFor('a'), { kind: 'completed', output: 'x'.repeat(1_000_000) })
    const done = await settled(on, id)
    expect(done).toMatchObject({ status: 'failed', error: { code: 'INPUT_TOO_LARGE', step_id: 'b' } })
    expect(done.steps[1]?.order_ids).toEqual([])
  })

  test('of this node’s own agents costs nothing, whatever they are listed for', async () => {
    const on = await bench()
    on.list('own', 900_000n, { local: true })
    const { id } = await on.create({ agent_ids: ['own'], budget: '0' })
    await whenOpen(on, 'step-1')
    expect((await on.openFor('step-1')).price).toBe(0n)
    expect((await on.workflows.get(id)).estimate).toBe('0')
  })
})

describe('D20: before anything is paid', () => {
  test.each<[string, Omit<CreateWorkflowBody, 'input'>, string]>([
    ['an agent nobody knows', { agent_ids: ['a', 'nobody'] }, 'steps[1].agent_id no agent has the id nobody'],
    [
      'a fallback nobody knows',
      { steps: [step('a', { fallback: ['nobody'] })] },
      'steps[0].fallback[0] no agent has the id nobody',
    ],
    [
      'a budget below the listed prices',
      { agent_ids: ['a', 'b'], budget: '0.019999' },
      'budget is 0.019999 USDC, and the steps cost 0.02',
    ],
    [
      'a step limit below its price',
      { steps: [step('a', { max_price: 0.009 })] },
      'steps[0].max_price a costs 0.01 USDC',
    ],
    ['a price above what the node pays', { agent_ids: ['dear'] }, 'dear costs 2 USDC, this node pays at most 1 USDC'],
  ])('%s is refused, and nothing is stored', async (_, body, message) => {
    const on = await bench()
    on.list('dear', 2_000_000n)
    await expect(on.create(body)).rejects.toMatchObject({
      code: 'WORKFLOW_INVALID',
      message: expect.stringContaining(message),
    })
    expect((await on.workflows.list({ limit: 10 })).items).toEqual([])
    expect(await on.open()).toEqual([])
  })

  test('a quote says what each step and the whole would cost', async () => {
    const on = await bench()
    on.list('dear', 500_000n)
    const quote = on.workflows.quote({
      name: undefined,
      input: 'in',
      budget: 600_000n,
      steps: [
        {
          id: 'x',
          agentId: 'a',
          input: undefined,
          dependsOn: undefined,
          maxPrice: 20_000n,
          retries: 0,
          fallback: ['dear'],
        },
        {
          id: 'y',
          agentId: 'b',
          input: undefined,
          dependsOn: undefined,
          maxPrice: undefined,
          retries: 0,
          fallback: [],
        },
      ],
    })
    expect(quote).toMatchObject({
      dry_run: true,
      budget: '0.6',
      total: '0.02',
      total_atomic: '20000',
      total_max: '0.51',
      steps: [
        { id: 'x', agent_id: 'a', price: '0.01', max_price: '0.02', fallback: [{ agent_id: 'dear', price: '0.5' }] },
        { id: 'y', depends_on: ['x'], price: '0.01' },
      ],
    })
    expect((await on.workflows.list({ limit: 10 })).items).toEqual([])
  })
})

describe('D20: retries', () => {
  test('are new orders, each after a longer wait, as many as allowed', async () => {
    const on = await bench()
    const { id } = await on.create({ steps: [step('a', { retries: 2 })] })
    const tried: string[] = []
    for (let count = 0; count < 3; count++) {
      await whenOpen(on, 'a')
      tried.push((await on.openFor('a')).id)
      await on.end(await on.openFor('a'), unreachable)
      await on.wake()
      expect(await openSteps(on)).toEqual([])
      on.clock.advance(60_000)
      await on.wake()
    }
    const done = await settled(on, id)
    expect(done).toMatchObject({ status: 'failed', error: { code: 'SELLER_UNREACHABLE' }, spent: '0' })
    expect(done.steps[0]?.order_ids).toEqual(tried)
    expect(new Set(tried).size).toBe(3)
  })

  test('do not follow an error that will not pass', async () => {
    const on = await bench()
    const { id } = await on.create({ steps: [step('a', { retries: 5 })] })
    await whenOpen(on, 'a')
    await on.end(await on.openFor('a'), { kind: 'failed', error: { retryable: false } })
    expect((await settled(on, id)).steps[0]?.order_ids).toHaveLength(1)
  })

  test('D33: wait until what was signed before can no longer be settled', async () => {
    const on = await bench()
    const { id } = await on.create({ steps: [step('a', { retries: 1 })] })
    await whenOpen(on, 'a')
    const first = await on.openFor('a')
    await on.end(first, { kind: 'failed', error: { code: 'EXECUTION_FAILED', retryable: true }, signed: 'reserved' })
    on.clock.advance(600_000)
    const again = await restarted(on)
    await until(async () => (await again.workflows.get(id)).steps[0]?.error?.code === 'EXECUTION_FAILED')
    expect([await openSteps(again), (await again.workflows.get(id)).status]).toEqual([[], 'running'])
    await again.resolve(first.id, 'released')
    await whenOpen(again, 'a')
    await again.end(await again.openFor('a'), completed)
    expect(await settled(again, id)).toMatchObject({ status: 'completed', spent: '0.01' })
  })

  test('D33: never follow a payment that is gone', async () => {
    const on = await bench()
    const { id } = await on.create({ steps: [step('a', { retries: 5, fallback: ['b'] })] })
    await whenOpen(on, 'a')
    const first = await on.openFor('a')
    await on.end(first, { kind: 'failed', error: { code: 'SELLER_FAILED', retryable: true }, signed: 'spent' })
    const done = await settled(on, id)
    expect(done).toMatchObject({ status: 'failed', spent: '0.01', steps: [{ order_ids: [first.id] }] })
  })
})

describe('D20: a fallback seller', () => {
  test('is asked where the first fails, also after it was signed for, if its seller says that it charges nothing', async () => {
    const on = await bench()
    const { id } = await on.create({ steps: [step('a', { fallback: ['b'] })], budget: '0.02' })
    await whenOpen(on, 'a')
    await on.end(await on.openFor('a'), { kind: 'failed', error: { code: 'EXECUTION_FAILED' }, signed: 'reserved' })
    await whenOpen(on, 'a')
    expect((await on.openFor('a')).agentId).toBe('b')
    await on.end(await on.openFor('a'), { kind: 'completed', output: 'from b' })
    expect(await settled(on, id)).toMatchObject({ status: 'completed', output: 'from b', steps: [{ agent_id: 'b' }] })
  })

  test('is asked once the chain shows that what was signed is unspent, in a block from after the answer (D45)', async () => {
    const shown: { state: 'unused' | 'used'; timeMs: number } = { state: 'unused', timeMs: 0 }
    const looks: number[] = []
    const chain = {
      authorizationAt: async () => {
        looks.push(shown.timeMs)
        return { use: { state: shown.state }, timeMs: shown.timeMs }
      },
    }
    const on = await bench({ chain: chain as never })
    await on.create({ steps: [step('a', { fallback: ['b'] })] })
    await whenOpen(on, 'a')
    await on.end(await on.openFor('a'), { kind: 'failed', error: { code: 'EXECUTION_FAILED' }, signed: 'reserved' })
    await until(() => looks.length === 1)
    await on.wake()
    expect(await openSteps(on)).toEqual([])
    Object.assign(shown, { state: 'used', timeMs: on.clock.now() })
    await on.wake()
    expect(await openSteps(on)).toEqual([])
    shown.state = 'unused'
    await on.wake()
    expect((await on.openFor('a')).agentId).toBe('b')
  })

  test.each([{}, { rebuy: true }])(
    'D45: follows what was settled first by the rule of its step alone: %j',
    async (rule) => {
      const on = await bench()
      const { id } = await on.create({ steps: [step('a', { fallback: ['b'], ...rule })] })
      await whenOpen(on, 'a')
      const first = await on.openFor('a')
      await on.end(first, {
        ...{ kind: 'failed', error: { code: 'EXECUTION_FAILED' }, signed: 'reserved', settlesFirst: true },
      })
      await on.wake()
      expect(await openSteps(on)).toEqual('rebuy' in rule ? ['a'] : [])
      await on.resolve(first.id, 'spent')
      if ('rebuy' in rule) await on.end(await on.openFor('a'), completed)
      const status = 'rebuy' in rule ? 'completed' : 'failed'
      const orders = 'rebuy' in rule ? 2 : 1
      const done = await settled(on, id)
      expect(done).toMatchObject({ status, spent: 'rebuy' in rule ? '0.02' : '0.01' })
      expect(done.steps[0]!.order_ids).toHaveLength(orders)
    },
  )

  test('waits where the budget holds it only once the first is released', async () => {
    const on = await bench()
    const { id } = await on.create({ steps: [step('a', { fallback: ['b'] })], budget: '0.019' })
    await whenOpen(on, 'a')
    const first = await on.openFor('a')
    await on.end(first, { kind: 'failed', error: { code: 'EXECUTION_FAILED' }, signed: 'reserved' })
    await until(async () => (await on.workflows.get(id)).steps[0]?.error !== undefined)
    expect(await openSteps(on)).toEqual([])
    await on.resolve(first.id, 'released')
    await whenOpen(on, 'a')
    expect((await on.openFor('a')).agentId).toBe('b')
  })

  test('is asked at once where the first is no longer on the market, and each in turn', async () => {
    const on = await bench()
    const { id } = await on.create({ steps: [step('a'), step('b', { fallback: ['c', 'd'] })] })
    await whenOpen(on, 'a')
    for (const gone of ['b', 'c']) on.market.delete(gone)
    await on.end(await on.openFor('a'), completed)
    await whenOpen(on, 'b')
    expect((await on.openFor('b')).agentId).toBe('d')
    expect((await on.workflows.get(id)).steps[1]).toMatchObject({ agent_id: 'd', status: 'running' })
  })

  test('too dear by now is passed over, and the step fails with the last reason', async () => {
    const on = await bench()
    const { id } = await on.create({ steps: [step('a'), step('b', { max_price: '0.02', fallback: ['c'] })] })
    await whenOpen(on, 'a')
    for (const dear of ['b', 'c']) on.list(dear, 20_001n)
    await on.end(await on.openFor('a'), completed)
    expect(await settled(on, id)).toMatchObject({
      status: 'failed',
      error: { code: 'OVER_PRICE', step_id: 'b' },
      spent: '0.01',
    })
  })
})

describe('D20: the budget', () => {
  test('stops before a step whose price has risen leaves too little for the rest', async () => {
    const on = await bench()
    const { id } = await on.create({ agent_ids: ['a', 'b', 'c'], budget: '0.03' })
    await whenOpen(on, 'step-1')
    on.list('b', 10_001n)
    await on.end(await on.openFor('step-1'), completed)
    expect(await settled(on, id)).toMatchObject({ status: 'failed', error: { code: 'OVER_BUDGET' }, spent: '0.01' })
  })

  test('holds exactly what it was made for, side by side too', async () => {
    const on = await bench()
    const steps = ['a', 'b', 'c', 'd'].map((id) => step(id, { depends_on: [] }))
    const { id } = await on.create({ steps, budget: '0.04' })
    await whenOpen(on, 'a', 'b', 'c', 'd')
    for (const order of await on.open()) await on.end(order, completed)
    expect(await settled(on, id)).toMatchObject({ status: 'completed', spent: '0.04' })
  })
})

describe('D20: canceling', () => {
  test('skips what has not begun, cancels what runs, and is final', async () => {
    const on = await bench()
    const { id } = await on.create({ agent_ids: ['a', 'b'] })
    await whenOpen(on, 'step-1')
    expect(statuses(await on.workflows.cancel(id))).toEqual(['canceled', 'canceled', 'skipped'])
    expect(await on.open()).toEqual([])
    await expect(on.workflows.cancel(id)).rejects.toMatchObject({ code: 'WORKFLOW_FINAL' })
  })

  test('loses no paid output, also one that comes only after the restart', async () => {
    const on = await bench()
    const { id } = await on.create({ agent_ids: ['a', 'b'] })
    await whenOpen(on, 'step-1')
    const order = await on.openFor('step-1')
    // It executes and is signed for: what becomes of it is for its seller to say.
    await on.sign({ ...order, status: 'executing' })
    expect(statuses(await on.workflows.cancel(id))).toEqual(['canceled', 'running', 'skipped'])
    const again = await restarted(on)
    const paid = {
      paymentId: (await again.purchases.reservationOf(order.id))!.paymentId,
      amount: 1n,
      txHash: undefined,
    }
    await again.purchases.finish({ ...order, status: 'completed', output: 'paid for' }, paid)
    const last = await restarted(again)
    await until(async () => (await last.workflows.get(id)).steps[0]?.status === 'completed')
    expect(await last.workflows.get(id)).toMatchObject({
      status: 'canceled',
      spent: '0.01',
      steps: [{ output: 'paid for' }, {}],
    })
  })

  test('ends a step that waits for its next try', async () => {
    const on = await bench()
    const { id } = await on.create({ steps: [step('a', { retries: 5 })] })
    await whenOpen(on, 'a')
    await on.end(await on.openFor('a'), unreachable)
    await until(async () => (await on.workflows.get(id)).steps[0]?.error?.code === 'SELLER_UNREACHABLE')
    expect(statuses(await on.workflows.cancel(id))).toEqual(['canceled', 'canceled'])
  })

  test('an order of a step by hand fails the step, and so the workflow', async () => {
    const on = await bench()
    const { id } = await on.create({ steps: [step('a', { retries: 5 })] })
    await whenOpen(on, 'a')
    const order = await on.openFor('a')
    await on.end({ ...order }, { kind: 'failed', error: {} })
    expect((await settled(on, id)).status).toBe('failed')
  })
})

test('T19: of open workflows there are only so many', async () => {
  const on = await bench()
  on.store.create = async () => 'full'
  await expect(on.create({ agent_ids: ['a'] })).rejects.toMatchObject({ code: 'WORKFLOWS_TOO_MANY' })
})

test('an unknown workflow is told as such', async () => {
  const on = await bench()
  await expect(on.workflows.get('x')).rejects.toThrow(expect.objectContaining({ code: 'UNKNOWN_WORKFLOW' }))
  await expect(on.workflows.cancel('x')).rejects.toMatchObject({ code: 'UNKNOWN_WORKFLOW' })
})

test('T16, T17, D33: whatever ends orders meet and wherever the process dies, no step is paid twice and no cap is passed', async () => {
  const anyStep = fc.record({
    retries: fc.nat(2),
    fallback: fc.constantFrom([], ['d'], ['c', 'd']),
    before: fc.subarray([0, 1, 2, 3]),
  })
  const end = fc.oneof(
    { arbitrary: fc.constant<End>(completed), weight: 4 },
    fc.record({
      kind: fc.constant('failed' as const),
      error: fc.record({ code: fc.constantFrom('EXECUTION_FAILED', 'SELLER_UNREACHABLE'), retryable: fc.boolean() }),
      signed: fc.constantFrom(undefined, 'reserved' as const, 'released' as const, 'spent' as const),
    }) as fc.Arbitrary<End>,
  )
  const event = fc.record({ end, which: fc.nat(7), crash: fc.boolean(), release: fc.boolean() })
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyStep, { minLength: 1, maxLength: 4 }),
      fc.constantFrom(undefined, '0.04', '0.05'),
      fc.array(event, { maxLength: 25 }),
      fc.boolean(),
      async (plan, budget, events, cancels) => {
        let on = await bench()
        const steps = plan.map(({ retries, fallback, before }, index) =>
          step(`s${index}`, {
            agent_id: ['a', 'b'][index % 2],
            retries,
            fallback,
            depends_on: before.filter((other) => other < index).map((other) => `s${other}`),
          }),
        )
        const { id } = await on.create({ steps, ...(budget !== undefined && { budget }) })
        const check = async () => {
          const workflow = await on.workflows.get(id)
          for (const { id: stepId, order_ids } of workflow.steps) {
            const read = async (orderId: string) => ({
              order: (await on.purchases.order(orderId))!,
              signed: (await on.purchases.reservationOf(orderId))?.state,
            })
            const orders = await Promise.all(order_ids.map(read))
            expect(orders.filter(({ order }) => order.status === 'completed').length).toBeLessThanOrEqual(1)
            expect(
              orders.filter(({ order }) => ['pending', 'executing'].includes(order.status)).length,
            ).toBeLessThanOrEqual(1)
            // Of one agent at most one signature may still cost something.
            for (const agent of new Set(orders.map(({ order }) => order.agentId))) {
              const live = orders.filter(
                ({ order, signed }) => order.agentId === agent && (signed === 'reserved' || signed === 'spent'),
              )
              expect(live.length, `${stepId} of ${agent}`).toBeLessThanOrEqual(1)
            }
            // Nothing follows money that is gone.
            const spent = orders.findIndex(({ signed }) => signed === 'spent')
            if (spent >= 0) expect(spent).toBe(orders.length - 1)
          }
          if (budget !== undefined)
            expect(Number(workflow.spent_atomic)).toBeLessThanOrEqual(Number(budget) * 1_000_000)
          for (const [index, { status }] of workflow.steps.entries()) {
            if (status === 'pending' || status === 'skipped') continue
            for (const other of plan[index]!.before.filter((one) => one < index)) {
              expect(workflow.steps[other]!.status).toBe('completed')
            }
          }
        }
        const quiet = async () => {
          on.clock.advance(40_000)
          await on.wake()
        }
        for (const { end: how, which, crash, release } of events) {
          await quiet()
          const open = await on.open()
          if (open.length > 0) await on.end(open[which % open.length]!, how)
          if (crash) on = await restarted(on)
          if (release) {
            for (const { orderId } of await on.purchases.open('reserved', { network: 'eip155:84532', limit: 10 })) {
              const order = (await on.purchases.order(orderId))!
              if (order.status === 'failed') await on.resolve(orderId, 'released')
            }
          }
          await check()
        }
        if (cancels) await on.workflows.cancel(id).catch(() => {})
        await check()
        await Promise.all(benches.splice(0).map(({ workflows }) => workflows.stop()))
      },
    ),
    { numRuns: 60 },
  )
})
