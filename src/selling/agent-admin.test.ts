import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import type { HostedAgent } from '../agents/hosted-agent.ts'
import { createOperateAgents } from './agent-admin.ts'

test('a pause and changes at once all hold: what was paused does not sell on', async () => {
  const definition = { name: 'Echo', description: 'repeats', price: 500_000n }
  const hosted = { id: 'echo', definition, model: 'builtin/echo', notice: undefined, timeoutMs: 1_000 }
  let agent = hosted as unknown as HostedAgent
  const operate = createOperateAgents({
    clock: new HandClock(),
    registry: { get: () => agent, list: () => [agent] },
    agents: {
      // A model is asked for, a card is fetched: it takes its time.
      async register(changed) {
        await new Promise(setImmediate)
        agent = { ...agent, definition: changed }
        return agent.id
      },
      remove: async () => {},
      test: async () => '',
      tryOut: async () => '',
    },
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
    registry: { get: () => agent, list: () => [agent] },
    agents: {
      async register(changed) {
        agent = { ...agent, definition: changed }
        return agent.id
      },
      remove: async () => {},
      test: async () => '',
      tryOut: async () => '',
    },
    isListed: () => true,
    soldElsewhere: () => new Set(),
    unlike: () => [],
  })
  expect(await operate.update('front', { max_price: 300_000n })).toMatchObject({ max_price: 300_000n })
  expect(await operate.update('front', { max_price: null })).not.toHaveProperty('max_price')
  agent = { ...agent, definition: { name: 'Echo', description: 'd', price: 0n, model: 'builtin/echo' } }
  await expect(operate.update('front', { max_price: 1n })).rejects.toMatchObject({ code: 'INVALID_REQUEST' })
})
