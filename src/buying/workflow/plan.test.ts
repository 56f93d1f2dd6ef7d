import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import * as z from 'zod'
import { MarketError } from '../../listings/market-error.ts'
import { CreateWorkflow, type CreateWorkflowBody } from '../../schema/workflow.ts'
import { planSteps } from './plan.ts'

const plan = (body: object) => planSteps(z.decode(CreateWorkflow, { input: 'in', ...body } as CreateWorkflowBody))
const dependencies = (body: object) => Object.fromEntries(plan(body).map(({ id, dependsOn }) => [id, dependsOn]))
const step = (id: string, more: object = {}) => ({ id, agent_id: `agent-${id}`, ...more })
function issuesOf(body: object): string[] {
  try {
    plan(body)
    return []
  } catch (error) {
    expect(error).toBeInstanceOf(MarketError)
    expect(error).toMatchObject({ code: 'WORKFLOW_INVALID' })
    return (error as MarketError).issues.map(({ path, message }) => `${path} ${message}`)
  }
}

describe('D20: a definition', () => {
  test.each([[{ agent_ids: ['x', 'y', 'z'] }], [{ agentIds: ['x', 'y', 'z'] }]])(
    'of agents alone is a chain, each given the output of the one before: %j',
    (body) => {
      expect(plan(body)).toEqual([
        { id: 'step-1', agents: ['x'], input: '{{input}}', dependsOn: [], maxPrice: undefined, retries: 0 },
        {
          id: 'step-2',
          agents: ['y'],
          input: '{{steps.step-1.output}}',
          dependsOn: ['step-1'],
          maxPrice: undefined,
          retries: 0,
        },
        {
          id: 'step-3',
          agents: ['z'],
          input: '{{steps.step-2.output}}',
          dependsOn: ['step-2'],
          maxPrice: undefined,
          retries: 0,
        },
      ])
    },
  )

  test('without any depends_on is a chain, whatever its templates need', () => {
    const steps = [step('a'), step('b', { input: '{{input}}' }), step('c', { input: '{{steps.a.output}}' })]
    expect(dependencies({ steps })).toEqual({ a: [], b: ['a'], c: ['b', 'a'] })
  })

  test('with a depends_on, also an empty one, runs side by side what waits for nothing', () => {
    const steps = [step('a', { depends_on: [] }), step('b'), step('c', { depends_on: ['a', 'b'] })]
    expect(dependencies({ steps })).toEqual({ a: [], b: [], c: ['a', 'b'] })
    expect(plan({ steps })[2]?.input).toBe('{{steps.a.output}}\n\n{{steps.b.output}}')
  })

  test('depends on what its template needs as well', () => {
    const steps = [
      step('a'),
      step('b', { depends_on: [] }),
      step('c', { input: '{{steps.b.output}}{{steps.a.output}}' }),
    ]
    expect(dependencies({ steps })).toEqual({ a: [], b: [], c: ['b', 'a'] })
  })

  test('keeps prices exactly, and knows whom to ask instead', () => {
    const steps = [step('a', { max_price: '0.000001', retries: 2, fallback: ['y', 'z'] })]
    expect(plan({ steps })).toMatchObject([{ agents: ['agent-a', 'y', 'z'], maxPrice: 1n, retries: 2 }])
  })
})

test.each([
  ['two steps of one name', [step('a'), step('a')], 'steps[1].id a is the id of an earlier step too'],
  ['a name that another step has by its place', [step('step-2'), { agent_id: 'x' }], 'steps[1].id step-2 is'],
  ['a dependency that is no step', [step('a', { depends_on: ['b'] })], 'steps[0].depends_on[0] names no step: b'],
  ['itself', [step('a', { depends_on: ['a'] })], 'steps[0].depends_on[0] is the step itself'],
  ['one twice', [step('a'), step('b', { depends_on: ['a', 'a'] })], 'steps[1].depends_on[1] names a twice'],
  [
    'its own output',
    [step('a', { input: '{{steps.a.output}}' })],
    'steps[0].input needs the output of the step itself',
  ],
  [
    'no step’s output',
    [step('a', { input: '{{steps.b.output}}' })],
    'steps[0].input needs the output of b, which is no',
  ],
  ['a later output in a chain', [step('a', { input: '{{steps.b.output}}' }), step('b')], 'steps wait for each other'],
  ['a broken template', [step('a', { input: '{{' })], 'steps[0].input holds a {{ without its }}'],
  ['a fallback to itself', [step('a', { fallback: ['agent-a'] })], 'steps[0].fallback[0] is asked already'],
  [
    'a circle',
    [step('a', { depends_on: ['c'] }), step('b', { depends_on: ['a'] }), step('c', { depends_on: ['b'] })],
    'steps wait for each other in a circle: a, b, c',
  ],
])('D20: refuses %s', (_, steps, message) => {
  expect(issuesOf({ steps }).join('\n')).toContain(message)
})

test('tells of every fault at once', () => {
  const steps = [step('a', { input: '{{x}}', depends_on: ['q'] }), step('a', { fallback: ['agent-a'] })]
  expect(issuesOf({ steps })).toHaveLength(4)
})

test.each([
  [{}, 'steps'],
  [{ steps: [], agent_ids: ['a'] }, 'steps'],
  [{ agent_ids: ['a'], agentIds: ['a'] }, 'steps'],
  [{ steps: [step('a')], budget: -1 }, 'budget'],
  [{ steps: [step('a b')] }, 'steps'],
  [{ steps: [step('a', { max_prise: 1 })] }, 'steps'],
  [{ steps: [step('a', { retries: 11 })] }, 'steps'],
  [{ steps: Array.from({ length: 65 }, (_, index) => step(`s${index}`)) }, 'steps'],
  [{ agent_ids: [] }, 'agent_ids'],
  [{ agent_ids: ['a'], input: '' }, 'input'],
  [{ agent_ids: ['a'], input: '\ud800' }, 'input'],
])('T8: the door refuses %.60j for its %s', (body, path) => {
  const parsed = z.safeDecode(CreateWorkflow, { input: 'in', ...body } as CreateWorkflowBody)
  expect(parsed.error?.issues.map((issue) => issue.path[0])).toContain(path)
})

test('a plan can always be done in some order, and a graph with a circle never is one', () => {
  const edges = fc.array(fc.tuple(fc.nat(7), fc.nat(7)), { maxLength: 20 })
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 8 }), edges, (count, pairs) => {
      const on = (index: number) => [
        ...new Set(pairs.filter(([from, to]) => from === index && to < count && to !== from).map(([, to]) => `s${to}`)),
      ]
      const steps = Array.from({ length: count }, (_, index) => ({
        id: `s${index}`,
        agent_id: 'x',
        depends_on: on(index),
      }))
      const done = new Set<string>()
      for (let round = 0; round < count; round++) {
        for (const { id, depends_on } of steps) if (depends_on.every((other) => done.has(other))) done.add(id)
      }
      const issues = issuesOf({ steps })
      if (done.size === count) expect(issues).toEqual([])
      else expect(issues).toEqual([expect.stringContaining('in a circle')])
    }),
    { numRuns: 300 },
  )
})
