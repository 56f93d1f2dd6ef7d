/** D18, D20 Orders and workflows with agents of this node go on after a restart, although agents come after the doors. */
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { NodeProcess } from '../../devnet/cli-process.ts'
import type { OrderRecord } from '../../src/schema/order.ts'
import type { WorkflowRecord } from '../../src/schema/workflow.ts'
import { ask } from '../support/api-calls.ts'
import { startNode } from '../support/cli-node.ts'
import { begun, slowProgram } from '../support/slow-agent.ts'
import { until } from '../support/until.ts'

let home: string
let node: NodeProcess | undefined

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-own-'))
  await mkdir(join(home, 'node'), { mode: 0o700 })
  const slow = { name: 'slow', description: 'd', price: 0, command: slowProgram(home, 1_000) }
  const quick = { name: 'quick', description: 'd', price: 0, model: 'builtin/echo' }
  await writeFile(join(home, 'node', 'agents.yaml'), JSON.stringify({ agents: [slow, quick] }))
})
afterEach(async () => {
  await node?.stop()
  await rm(home, { recursive: true, force: true })
})

async function start(): Promise<NodeProcess> {
  const args = ['--port', '0', '--api-port', '0', '--no-mdns', '--no-public-dht', '--data-dir', join(home, 'node')]
  node = await startNode(args, { NODE_LISTEN_HOST: '127.0.0.1' })
  return node
}

test.each(['SIGKILL', 'SIGTERM'] as const)('after %s both go on to their end', async (signal) => {
  const first = await start()
  const url = first.ready.api_url
  const ids = first.ready.agents.map(({ id }) => id)
  const made = await ask<WorkflowRecord>(url, '/workflows', { body: { agent_ids: ids, input: 'steps' } })
  const order = await ask<OrderRecord>(url, '/orders', { body: { agent_id: ids[0], price: '0', task: 'order' } })
  await Promise.all([begun(home, 'steps'), begun(home, 'order')])
  const ended = once(first.child, 'exit')
  first.child.kill(signal)
  await ended

  const again = (await start()).ready.api_url
  const workflowNow = () => ask<WorkflowRecord>(again, `/workflows/${made.id}`)
  const orderNow = () => ask<OrderRecord>(again, `/orders/${order.id}`)
  const isOver = ({ status }: { status: string }) => status === 'completed' || status === 'failed'
  await until(async () => isOver(await workflowNow()) && isOver(await orderNow()))
  expect((await workflowNow()).error).toBeUndefined()
  expect(await workflowNow()).toMatchObject({ status: 'completed', output: 'slowly: steps' })
  expect(await orderNow()).toMatchObject({ status: 'completed', output: 'slowly: order' })
})
