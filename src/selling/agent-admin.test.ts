import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import type { HostedAgent } from '../agents/hosted-agent.ts'
import { createLane } from '../lib/lane.ts'
import { createOperateAgents } from './agent-admin.ts'

const refuse = () => {
  throw new Error('not used')
}
const unused = { isStored: refuse, check: refuse, refresh: refuse, drop: refuse }
const file = { sellerId: '12D3KooWSeller', agentsMax: 64, readFile: refuse }

test('a pause and changes at once all hold: what was paused does not sell on', async () => {
  const definition = { name: 'Echo', description: 'repeats', price: 500_000n }
  const hosted = { id: 'echo', definition, model: 'builtin/echo', notice: undefined, timeoutMs: 1_000 }
  let agent = hosted as unknown as HostedAgent
  const operate = createOperateAgents({
    clock: new HandClock(),
    inTurn: createLane(),
    registry: { get: () => agent, list: () => [agent], expect: () => {} },
    agents: {
      // A model is asked for, a card is fetched: it takes its time.
      async register(changed) {
        await new Promise(setImmediate)
        agent = { ...agent, definition: changed }
        return agent.id
      },
      ...unused,
      remove: async () => {},
      test: async () => '',
      tryOut: async () => '',
    },
    ...file,
    isListed: () => true,
    soldElsewhere: () => new Set(),
    unlike: () => [],
  })
  await Promise.all([operate.setPaused('echo', true), operate.update('echo', { price: 250_000n, tags: ['text'] })])
  expect(operate.get('echo')).toMatchObject({ paused: true, price: 250_000n, tags: ['text'] })
})

test('ADR-22 what a run may pay is changed and taken away, and only an agent with a2a has it', async () => {
  const definition = { name: 'Front', description: 'asks', price: 500_000n, a2a: 'https://agents.example/a' }
  let agent = { id: 'front', definition, model: 'a2a', timeoutMs: 1_000 } as unknown as HostedAgent
  const operate = createOperateAgents({
    clock: new HandClock(),
    inTurn: createLane(),
    registry: { get: () => agent, list: () => [agent], expect: () => {} },
    agents: {
      async register(changed) {
        agent = { ...agent, definition: changed }
        return agent.id
      },
      ...unused,
      remove: async () => {},
      test: async () => '',
      tryOut: async () => '',
    },
    ...file,
    isListed: () => true,
    soldElsewhere: () => new Set(),
    unlike: () => [],
  })
  expect(await operate.update('front', { max_price: 300_000n })).toMatchObject({ max_price: 300_000n })
  expect(await operate.update('front', { max_price: null })).not.toHaveProperty('max_price')
  agent = { ...agent, definition: { name: 'Echo', description: 'd', price: 0n, model: 'builtin/echo' } }
  await expect(operate.update('front', { max_price: 1n })).rejects.toMatchObject({ code: 'INVALID_REQUEST' })
})
