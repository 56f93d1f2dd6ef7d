import { afterEach, describe, expect, test } from 'vitest'
import { listingFixture, localId, remoteId } from '../../test/support/fake-api.ts'
import { createFakeMarket } from '../../test/support/fake-market.ts'
import { HandClock } from '../../test/support/hand-clock.ts'
import { requirements } from '../../test/support/payments.ts'
import { ScriptedSeller } from '../../test/support/scripted-seller.ts'
import { TestBuyer } from '../../test/support/test-buyer.ts'
import { until } from '../../test/support/until.ts'
import { assets } from '../payments/assets.ts'
import { createWallet } from '../payments/wallet.ts'
import type { Listing } from '../schema/listing.ts'
import { CreateWorkflow } from '../schema/workflow.ts'
import { type Database, openDatabase } from '../store/database.ts'
import type { Buyer } from './buyer.ts'

const live = assets['eip155:8453']
const onBase: Partial<Listing> = { network: 'eip155:8453', asset: live.address, buyable: false }
const mismatch = { code: 'NETWORK_MISMATCH', message: expect.stringMatching(/sold on Base, real money/) }

const started = new Set<Buyer>()
afterEach(async () => {
  for (const buyer of started) for (const service of buyer.services.toReversed()) await service.stop()
  started.clear()
})

/** A buyer of the test network whose every attempt to reach a seller is counted. */
async function buyerOf(listings: Listing[], options: Parameters<typeof createFakeMarket>[1] = {}) {
  const database: Database = openDatabase({ path: ':memory:' })
  const asked: string[] = []
  let heard = (_listing: { id: string; state: 'active' }) => {}
  const buyer = createFakeMarket(() => listings, {
    database,
    openStream: (_peer, protocol) => {
      asked.push(protocol)
      return Promise.reject(new Error('nobody is there'))
    },
    replica: {
      onChange(listener) {
        heard = listener as typeof heard
        return () => {}
      },
    },
    ...options,
  })
  started.add(buyer)
  for (const service of buyer.services) await service.start()
  const signed = () => (database.prepare('SELECT count(*) AS n FROM authorizations').get() as { n: number }).n
  const came = (listing: Listing) => {
    listings.push(listing)
    heard({ id: listing.id, state: 'active' })
  }
  return { ...buyer, asked, signed, came, listings }
}

describe('D37 T24: a node on test money refuses an agent that is sold for real money, before anyone is asked', () => {
  const foreign = () => [listingFixture(onBase)]

  test('in a call', async () => {
    const { execute, asked, signed } = await buyerOf(foreign())
    const call = execute({ agentId: remoteId, input: 'x', signal: AbortSignal.timeout(5_000) })
    await expect(call).rejects.toMatchObject(mismatch)
    expect([asked, signed()]).toEqual([[], 0])
  })

  test('in a call of a free agent', async () => {
    const { execute, asked } = await buyerOf([listingFixture({ ...onBase, price: 0n, price_atomic: '0' })])
    const call = execute({ agentId: remoteId, input: 'x', signal: AbortSignal.timeout(5_000) })
    await expect(call).rejects.toMatchObject(mismatch)
    expect(asked).toEqual([])
  })

  test('in a quote', async () => {
    const { quote, asked } = await buyerOf(foreign())
    await expect(quote(remoteId, AbortSignal.timeout(5_000))).rejects.toMatchObject(mismatch)
    expect(asked).toEqual([])
  })

  test('in an order, with and without its task', async () => {
    const { orders, asked } = await buyerOf(foreign())
    for (const task of ['x', undefined]) {
      await expect(orders.create({ agentId: remoteId, price: 50_000n, task })).rejects.toMatchObject(mismatch)
    }
    expect([asked, (await orders.list({ limit: 10 })).items]).toEqual([[], []])
  })

  test('in an order that waited for its agent', async () => {
    const { orders, came, signed } = await buyerOf([])
    const { id } = await orders.create({ agentId: remoteId, price: 50_000n, task: 'x' })
    came(listingFixture(onBase))
    const ended = await orders.settled(id, { limitMs: 5_000 })
    expect([ended.status, ended.error, signed()]).toEqual(['failed', expect.objectContaining(mismatch), 0])
  })

  test('in a workflow that is planned or placed', async () => {
    const { workflows } = await buyerOf(foreign())
    const body = CreateWorkflow.decode({ input: 'x', steps: [{ agent_id: remoteId }] })
    expect(() => workflows.quote(body)).toThrow(expect.objectContaining({ code: 'NETWORK_MISMATCH' }))
    await expect(workflows.create(body)).rejects.toMatchObject({
      code: 'NETWORK_MISMATCH',
      issues: [{ path: 'steps[0].agent_id', message: mismatch.message }],
    })
  })

  test('in a step whose agent has moved to the other network since', async () => {
    const listings = [listingFixture({ id: localId, local: true }), listingFixture()]
    const { workflows, asked } = await buyerOf(listings, {
      runOwn: async () => {
        listings[1] = listingFixture(onBase)
        return 'done'
      },
    })
    const steps = [{ agent_id: localId }, { agent_id: remoteId }]
    const { id } = await workflows.create(CreateWorkflow.decode({ input: 'x', steps }))
    const ended = await workflows.settled(id, { limitMs: 5_000 })
    expect(ended.steps.map(({ status, error }) => [status, error?.code])).toEqual([
      ['completed', undefined],
      ['failed', 'NETWORK_MISMATCH'],
    ])
    expect(asked).toEqual([])
  })

  test('in an approved order whose agent has moved to the other network since', async () => {
    const listings = [listingFixture()]
    const { orders, approvals, asked } = await buyerOf(listings, {
      rules: { ...rulesOfAll, autoApproveBelowAtomic: 1n },
    })
    const { id } = await orders.create({ agentId: remoteId, price: 50_000n, task: 'x' })
    const [held] = await untilHeld(approvals)
    listings[0] = listingFixture(onBase)
    await approvals.decide(held!.id, 'approved')
    const ended = await orders.settled(id, { limitMs: 5_000 })
    expect([ended.error?.code, asked]).toEqual(['NETWORK_MISMATCH', []])
  })

  test('but runs its own agents, and buys on its own network', async () => {
    const { execute } = await buyerOf([listingFixture({ ...onBase, id: localId, local: true })])
    const result = await execute({ agentId: localId, input: 'x', signal: AbortSignal.timeout(5_000) })
    expect(result.output).toBe('X')
  })
})

const rulesOfAll = { dailyBudgetAtomic: 5_000_000n, maxPriceAtomic: 1_000_000n }
async function untilHeld(approvals: Buyer['approvals']) {
  for (;;) {
    const held = await approvals.list('pending')
    if (held.length > 0) return held
    await new Promise((resolve) => setImmediate(resolve))
  }
}

describe('D37: the wallet signs for one network and one asset', () => {
  test.each(['eip155:84532', 'eip155:8453'] as const)('a wallet of %s signs nothing of the other', (network) => {
    const wallet = createWallet(`0x${'11'.repeat(32)}`, assets[network])
    const other = assets[network === 'eip155:8453' ? 'eip155:84532' : 'eip155:8453']
    const nonce = `0x${'22'.repeat(32)}` as const
    const sign = (asset: typeof other) =>
      wallet.authorize(
        requirements({ network: asset.network, asset: asset.address }),
        { serverNonce: nonce, authorizationNonce: nonce },
        Date.UTC(2026, 0, 1),
      )
    expect(sign(assets[network]).envelope.network).toBe(network)
    expect(() => sign(other)).toThrow(expect.objectContaining({ code: 'ASSET_UNKNOWN' }))
  })

  test('a seller that lists and asks for the other network gets no signature, even from a listing taken as buyable', async () => {
    const asked = requirements({ network: 'eip155:8453', asset: live.address })
    const seller = new ScriptedSeller(async (stream) =>
      stream.challenge(await stream.next(), { payment_requirements: asked }),
    )
    const buyer = new TestBuyer({ open: seller.open })
    buyer.list({ ...onBase, buyable: true })
    await expect(buyer.execute()).rejects.toMatchObject({ code: 'NETWORK_MISMATCH' })
    expect(await buyer.ledger()).toMatchObject([{ order: { status: 'failed' }, reservation: undefined }])
  })
})

describe('D37: what was signed on another network', () => {
  /** Signed on Base by a node that runs on the test network now. */
  async function moved() {
    const database = openDatabase({ path: ':memory:' })
    const clock = new HandClock()
    const process = new AbortController()
    const silent = new ScriptedSeller(async (stream) => {
      const asked = requirements({ network: 'eip155:8453', asset: live.address })
      await stream.challenge(await stream.next(), { payment_requirements: asked })
      await stream.next()
      process.abort()
    })
    const wallet = createWallet(`0x${'01'.repeat(32)}`, live)
    const before = new TestBuyer({ database, clock, open: silent.open, wallet })
    before.list({ ...onBase, buyable: true })
    await before.execute({ signal: process.signal }).catch(() => {})
    const seller = new ScriptedSeller(async (stream) => stream.respond(await stream.next()))
    const chainAsked: string[] = []
    const chain = {
      authorizationUse: async (asset: string) => {
        chainAsked.push(asset)
        return { state: 'unused' as const }
      },
      authorizationAt: async (asset: string) => {
        chainAsked.push(asset)
        return { use: { state: 'unused' as const }, timeMs: clock.now() }
      },
      transferOf: async () => undefined,
      blockTimeMs: async () => clock.now(),
    }
    const buyer = new TestBuyer({ database, clock, open: seller.open, chain })
    return { buyer, seller, clock, chainAsked }
  }

  test('is neither sent nor looked up on this chain, and stays held however long', async () => {
    const { buyer, seller, clock, chainAsked } = await moved()
    const [{ order, reservation } = {}] = await buyer.ledger()
    expect(reservation).toMatchObject({ state: 'reserved', requirements: { network: 'eip155:8453' } })
    clock.advance(3 * 24 * 60 * 60 * 1000)
    await expect(buyer.recovery.look(order!.id)).rejects.toMatchObject({ code: 'NETWORK_MISMATCH' })
    const { looksDue } = buyer.purchases
    let sweeps = 0
    buyer.purchases.looksDue = (...asked) => {
      sweeps++
      return looksDue(...asked)
    }
    await buyer.recovery.start()
    await until(() => sweeps > 0)
    await buyer.recovery.stop()
    expect([seller.received, chainAsked]).toEqual([[], []])
    expect(await buyer.ledger()).toMatchObject([{ order: { status: 'executing' }, reservation: { state: 'reserved' } }])
  })
})
