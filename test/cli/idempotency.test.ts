import { expect, test } from 'vitest'
import { cli, listing, runningNode, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const order = (more: object = {}) => ({
  id: '7e7d1f3c-1f1e-4b69-9b0e-1f4a9f6a3f10',
  agent_id: 'abc',
  price: 10_000n,
  status: 'executing',
  created_at: '2026-01-01T00:00:00.000Z',
  updated_at: '2026-01-01T00:00:00.000Z',
  ...more,
})
const workflow = { ...order({ status: 'completed' }), steps: [], spent: '0', output: 'done' }

/** Runs a command line, and gives the keys its calls were sent with. */
async function keysOf(...argv: string[]): Promise<unknown[]> {
  const keys: unknown[] = []
  const note =
    (value: unknown) =>
    async (...args: unknown[]) => {
      keys.push((args.at(-1) as { idempotencyKey?: string }).idempotencyKey)
      return value as never
    }
  const { parts } = await runningNode(dataDir(), {
    order: async () => order() as never,
    createOrder: note(order()),
    executeOrder: note(order()),
    agent: async (id) => listing({ id }),
    createWorkflow: note(workflow),
    workflow: async () => workflow as never,
  })
  const run = await cli([...argv], { dataDir: dataDir(), parts })
  expect(run.stderr).not.toMatch(/unknown option/)
  return keys
}

test.each([
  [['order', 'create', '--agent-id', 'abc', '--price', '0.05', '--task', 'x']],
  [['order', 'execute', order().id, '--task', 'x']],
  [['workflow', 'create', '--agent-id', 'abc', '--input', 'x']],
  [['workflow', 'run', '--agent-id', 'abc', '--input', 'x']],
])('D38 `stoa %s` is sent with the key of --idempotency-key, or otherwise with a key of the client', async (argv) => {
  expect(await keysOf(...argv, '--idempotency-key', 'mine')).toEqual(['mine'])
  expect(await keysOf(...argv)).toEqual([undefined])
})

test('an order without a task says how to give it one', async () => {
  const waiting = order({ status: 'pending', task: null, seller_id: null, price_atomic: '50000' })
  const { parts } = await runningNode(dataDir(), {
    createOrder: async () => waiting as never,
    agent: async (id) => listing({ id }),
  })
  const run = await cli(['order', 'create', '--agent-id', 'abc', '--price', '0.05'], { dataDir: dataDir(), parts })
  expect(run.stdout).toContain(`waits for its task: stoa order execute ${waiting.id} --task`)
})

test.each([[['--agent-id', 'a', '--agent-id', 'b']], [['--chain', 'a, b,']]])(
  'a workflow is a chain of the agents of %s, which may be names',
  async (flags) => {
    const bodies: unknown[] = []
    const { parts } = await runningNode(dataDir(), {
      agent: async (name) => listing({ id: `id-of-${name}` }),
      createWorkflow: async (body: unknown) => {
        bodies.push(body)
        return workflow as never
      },
      workflow: async () => workflow as never,
    })
    await cli(['workflow', 'create', ...flags, '--input', 'x'], { dataDir: dataDir(), parts })
    expect(bodies).toEqual([{ agent_ids: ['id-of-a', 'id-of-b'], input: 'x' }])
  },
)
