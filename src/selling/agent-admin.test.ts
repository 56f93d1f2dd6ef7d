import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import type { HostedAgent } from '../agents/hosted-agent.ts'
import { createLane } from '../lib/lane.ts'
import type { AgentDefinition } from '../schema/agent.ts'
import { createOperateAgents } from './agent-admin.ts'

const refuse = () => {
  throw new Error('not used')
}

/** The operator's actions on one agent. A registration takes a turn of the event loop, like a card that is fetched. */
function operateOn(id: string, definition: AgentDefinition) {
  let agent = { id, definition, model: 'builtin/echo', timeoutMs: 1_000 } as unknown as HostedAgent
  return createOperateAgents({
    clock: new HandClock(),
    inTurn: createLane(),
    registry: { get: () => agent, list: () => [agent], expect: () => {} },
    agents: {
      async register(changed) {
        await new Promise(setImmediate)
        agent = { ...agent, definition: changed }
        return agent.id
      },
      ...{ isStored: refuse, check: refuse, refresh: refuse, drop: refuse },
      ...{ remove: refuse, test: refuse, tryOut: refuse },
    },
    ...{ sellerId: '12D3KooWSeller', agentsMax: 64, readFile: refuse },
    isListed: () => true,
    soldElsewhere: () => new Set(),
    unlike: () => [],
  })
}

test('a pause and changes at once all hold: what was paused does not sell on', async () => {
  const operate = operateOn('echo', { name: 'Echo', description: 'repeats', price: 500_000n })
  await Promise.all([operate.setPaused('echo', true), operate.update('echo', { price: 250_000n, tags: ['text'] })])
  expect(operate.get('echo')).toMatchObject({ paused: true, price: 250_000n, tags: ['text'] })
})

test('ADR-22 what a run may pay is changed and taken away, and only an agent with a2a has it', async () => {
  const remote = { name: 'Front', description: 'asks', price: 500_000n, a2a: 'https://agents.example/a' }
  const operate = operateOn('front', remote)
  expect(await operate.update('front', { max_price: 300_000n })).toMatchObject({ max_price: 300_000n })
  expect(await operate.update('front', { max_price: null })).not.toHaveProperty('max_price')
  const local = operateOn('echo', { name: 'Echo', description: 'd', price: 0n, model: 'builtin/echo' })
  await expect(local.update('echo', { max_price: 1n })).rejects.toMatchObject({ code: 'INVALID_REQUEST' })
})
