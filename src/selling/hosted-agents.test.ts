import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { payTo, usdc } from '../../test/support/payments.ts'
import { createRegistry } from '../agents/registry.ts'
import { RunSlots } from '../agents/run-slots.ts'
import type { AgentRuntime } from '../agents/runtime.ts'
import { workerRuntime } from '../agents/worker-agent.ts'
import type { OwnListing, Replica } from '../listings/replica.ts'
import { AgentDefinition } from '../schema/agent.ts'
import { openDatabase } from '../store/database.ts'
import { createExchanges } from '../store/exchanges.ts'
import { createOwnAgents, createServedAgents } from './hosted-agents.ts'

const sellerId = '12D3KooWSeller'
const signal = new AbortController().signal
const createTestRuntime = async ({ description }: AgentDefinition): Promise<AgentRuntime> => ({
  model: 'test',
  readsHistory: true,
  run: async ({ input, history }) => `${description} ${input} after ${history.length}`,
})

function setup(createRuntime = createTestRuntime, channel?: () => Promise<OwnListing['channel']>) {
  const listed = new Map<string, OwnListing>()
  const left: string[] = []
  const persisted: string[] = []
  const fails = { publish: false, persist: false }
  /** The listings that this process signs. */
  const signed = new Set<string>()
  const replica = {
    signs: (id: string) => signed.has(id),
    publish: async (own: OwnListing) => {
      if (fails.publish) throw new Error('the store is full')
      signed.add(own.id)
      listed.set(own.id, own)
      return own as never
    },
    async delist(id: string) {
      signed.delete(id)
      listed.delete(id)
    },
    async leave(id: string) {
      signed.delete(id)
      left.push(id)
    },
    async check({ description }: OwnListing) {
      if (description.length > 100) throw new Error('the listing has too many bytes')
    },
    get: (id: string) => listed.get(id) as never,
    own: () => [...listed.values()].map((own) => ({ ...own, seller_id: sellerId }) as never),
  } as Partial<Replica> as Replica
  const registry = createRegistry({ sellerId, agentsMax: 10 }, { createRuntime })
  const tokens = new Map<string, string>()
  const elsewhere = new Set<string>()
  /** What is on the market whenever the other processes are told what this one sells, and what they are told. */
  const told: { listed: string[]; sold: string[] }[] = []
  const exchanges = createExchanges(openDatabase({ path: ':memory:' }))
  const agents = createOwnAgents({
    clock: new HandClock(),
    sellerId,
    registry,
    replica,
    exchanges,
    slots: new RunSlots({ concurrentMax: 2, waitingMax: 2 }),
    asset: usdc,
    payTo,
    channel,
    isAhead: async () => false,
    takesElsewhere: () => false,
    soldElsewhere: () => elsewhere,
    async tellOthers() {
      told.push({ listed: [...listed.keys()], sold: registry.list().map(({ id }) => id) })
    },
    tokenOf: async (id) => tokens.get(id),
    persist: async ({ name }) => {
      if (fails.persist) throw new Error('agents.yaml cannot be written')
      persisted.push(name)
      return true
    },
    forget: async (name) => {
      if (fails.persist) throw new Error('agents.yaml cannot be written')
      persisted.splice(persisted.indexOf(name), 1)
    },
  })
  return { agents, registry, replica, listed, left, persisted, fails, exchanges, tokens, elsewhere, told }
}
const define = (changes: object = {}) =>
  AgentDefinition.parse({ name: 'a', description: 'says', price: 0.01, ...changes })

test('D6: a paid agent is listed for the payment protocol only, a free one for both', async () => {
  const { agents, listed, persisted } = setup()
  const paid = await agents.register(define(), { persist: true })
  const free = await agents.register(define({ name: 'free', price: 0 }), { persist: false })
  expect(listed.get(paid)).toMatchObject({ price_atomic: 10_000n, protocols: ['/x402/libp2p/1.0.0'], pay_to: payTo })
  expect(listed.get(free)?.protocols).toEqual(['/node/marketplace/1.0.0', '/x402/libp2p/1.0.0'])
  expect(persisted).toEqual(['a'])
})

test('what a seller wants of payment channels is in the listings of its paid agents, while it offers them', async () => {
  const terms = { receiver_authorizer: payTo, withdraw_delay: 86_400, min_deposit: 100_000n }
  let offered: typeof terms | undefined = terms
  const { agents, listed } = setup(createTestRuntime, async () => offered)
  const pricing = { per_1k_output_tokens: 0.001, max: 0.01 }
  const paid = await agents.register(define({ pricing }), { persist: false })
  const free = await agents.register(define({ name: 'free', price: 0 }), { persist: false })
  const paused = await agents.register(define({ name: 'paused', paused: true }), { persist: false })
  expect([listed.get(paid)?.channel, listed.get(free)?.channel]).toEqual([terms, undefined])
  offered = undefined
  await agents.followChannels()
  expect([listed.get(paid)?.channel, listed.get(paid)?.pricing, listed.has(paused)]).toEqual([
    undefined,
    undefined,
    false,
  ])
  offered = terms
  await agents.followChannels()
  expect(listed.get(paid)).toMatchObject({ channel: terms, pricing: { max: 10_000n } })
})

test('the identity an agent has on the chain, also the first, is in its listing and in its responses', async () => {
  const { agents, listed, tokens } = setup()
  const id = await agents.register(define(), { persist: false })
  expect([listed.get(id)?.token_id, agents.served(id)?.tokenId]).toEqual([undefined, ''])
  tokens.set(id, '0')
  await agents.relist(id)
  expect([listed.get(id)?.token_id, agents.served(id)?.tokenId]).toEqual(['0', '0'])
})

test.each(['publish', 'persist'] as const)('D12: what cannot be %s-ed is not registered at all', async (step) => {
  const { agents, listed, fails } = setup()
  fails[step] = true
  await expect(agents.register(define(), { persist: true })).rejects.toThrow()
  expect([...listed]).toEqual([])
  fails[step] = false
  const id = await agents.register(define(), { persist: true })
  expect(agents.served(id)).toBeDefined()
})

test('D12: a change that cannot be kept leaves the agent as it was, listed and running', async () => {
  const { agents, listed, fails } = setup()
  const id = await agents.register(define(), { persist: true })
  fails.persist = true
  await expect(agents.register(define({ description: 'shouts', price: 5 }), { persist: true })).rejects.toThrow()
  expect(listed.get(id)).toMatchObject({ description: 'says', price_atomic: 10_000n })
  expect(agents.served(id)).toMatchObject({ amount: 10_000n })
  expect(await agents.run(id, { callerId: 'local', input: 'x', correlationId: 'one', signal })).toBe('says x after 0')
})

test('T9: each caller’s agent remembers that caller only', async () => {
  const { agents, exchanges } = setup()
  const id = await agents.register(define({ price: 0 }), { persist: false })
  const past = { agentId: id, correlationId: 'one', input: 'secret', output: 'told', createdAt: 0, durationMs: 0 }
  await exchanges.record({ ...past, callerId: 'did:alice' })
  const run = (callerId: string) => agents.served(id)!.run({ input: 'x', callerId, signal })
  expect([await run('did:alice'), await run('did:mallory')]).toEqual(['says x after 1', 'says x after 0'])
})

test('an agent that is no longer here is not run', async () => {
  const { agents } = setup()
  expect(agents.served('gone')).toBeUndefined()
  await expect(
    agents.run('gone', { callerId: 'local', input: 'x', correlationId: 'one', signal }),
  ).rejects.toMatchObject({
    code: 'AGENT_NOT_RUNNABLE',
  })
})

test('D9: all are taken off the market at a clean stop', async () => {
  const { agents, listed } = setup()
  await agents.register(define(), { persist: false })
  await agents.register(define({ name: 'b' }), { persist: false })
  await agents.delistAll(new Set())
  expect([...listed]).toEqual([])
})

test('what another process of the seller sells stays on the market', async () => {
  const { agents, listed, elsewhere } = setup()
  await agents.register(define(), { persist: false })
  const b = await agents.register(define({ name: 'b' }), { persist: false })
  await agents.delistAll(new Set([b]))
  expect([...listed.keys()]).toEqual([b])
  for (const id of ['c', 'd']) listed.set(id, { id } as never)
  elsewhere.add('c')
  await agents.delistUnknown()
  expect([...listed.keys()].toSorted()).toEqual([b, 'c'].toSorted())
})

test('an agent that another process sells is left to it when this one pauses or removes it', async () => {
  const { agents, listed, left, elsewhere } = setup()
  const id = await agents.register(define(), { persist: false })
  elsewhere.add(id)
  await agents.register(define({ paused: true }), { persist: false })
  await agents.remove(id)
  expect([left, [...listed.keys()]]).toEqual([[id, id], [id]])
  // The other one paused it at the same time, and left it to this one.
  elsewhere.delete(id)
  await agents.register(define({ paused: true }), { persist: false })
  listed.set(id, { id } as never)
  await agents.delistUnknown()
  expect([...listed]).toEqual([])
})

test('a paused agent is kept and answers its operator, but is neither listed nor sold', async () => {
  const { agents, listed, persisted } = setup()
  const id = await agents.register(define(), { persist: true })
  await agents.register(define({ paused: true }), { persist: true })
  expect([...listed]).toEqual([])
  expect(agents.served(id)).toBeUndefined()
  expect(await agents.test(id, { input: 'x', signal })).toBe('says x after 0')
  await agents.delistUnknown()
  await agents.register(define(), { persist: true })
  expect([...listed.keys()]).toEqual([id])
  expect(persisted).toEqual(['a', 'a', 'a'])
})

test('an agent that is removed is gone from the market and from agents.yaml; where that cannot be written it stays', async () => {
  const { agents, listed, persisted, fails } = setup()
  const id = await agents.register(define(), { persist: true })
  fails.persist = true
  await expect(agents.remove(id)).rejects.toThrow('agents.yaml')
  expect(agents.served(id)).toBeDefined()
  fails.persist = false
  await agents.remove(id)
  expect([listed.size, persisted.length, agents.served(id)]).toEqual([0, 0, undefined])
})

test('an agent that workers run is on the market while one can run it; a late call is told to try again', async () => {
  const able = new Set<string>()
  const { agents, listed, registry, replica, elsewhere } = setup(async ({ name }) =>
    workerRuntime(
      { name, timeoutMs: 1_000, outputBytesMax: 10 },
      {
        ...{ canRun: (one) => able.has(one), isOffered: (one) => able.has(one) },
        ...{ readsHistory: () => false, run: async () => 'done by a worker' },
      },
    ),
  )
  const definition = define({ worker: true })
  await expect(agents.register(definition, { persist: false })).rejects.toMatchObject({ code: 'AGENT_NOT_RUNNABLE' })
  const id = await agents.register(definition, { persist: false, keepBroken: true })
  const served = createServedAgents(agents, { registry, replica, sellerId, trading: { isStopped: () => false } })
  expect(listed.size).toBe(0)
  expect(() => served.find(id)).toThrow(expect.objectContaining({ code: 'OVERLOADED', retryable: true }))

  // A worker may claim whatever it likes: only agents of this node are listed.
  able.add('a').add('not an agent of this node')
  await agents.followWorkers()
  expect([...listed.keys()]).toEqual([id])
  expect(await served.find(id)?.run({ input: 'x', callerId: 'y', signal })).toBe('done by a worker')

  able.delete('a')
  // Another process of the seller still has a worker for it.
  elsewhere.add(id)
  await agents.followWorkers()
  expect([...listed.keys()]).toEqual([id])
  elsewhere.delete(id)
  await agents.followWorkers()
  expect(listed.size).toBe(0)
  expect(agents.served(id)).toBeUndefined()

  // A process that had a worker has died, and its listing names its address alone. The worker comes here.
  listed.set(id, { id } as OwnListing)
  able.add('a')
  await agents.followWorkers()
  expect(listed.get(id)).toMatchObject({ name: 'a' })

  await agents.register({ ...definition, paused: true }, { persist: false, keepBroken: true })
  await agents.followWorkers()
  expect([listed.size, served.find(id)]).toEqual([0, undefined])
})

test('the other processes know that an agent is sold here before it is listed, and that it is not before it leaves', async () => {
  const { agents, told } = setup()
  const id = await agents.register(define(), { persist: false })
  await agents.remove(id)
  expect(told).toEqual([
    { listed: [], sold: [id] },
    { listed: [id], sold: [] },
  ])
})
