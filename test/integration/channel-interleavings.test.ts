/**
 * Calls, losses, crashes, clocks that jump, reorganizations and withdrawals in any order, against the contract on a real chain.
 * `STOA_TEST_CASES=500 vitest run --project node test/integration/channel-interleavings.test.ts` tries more of them.
 */
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { smallest } from '../../src/lib/bigints.ts'
import { ChannelSeller } from '../support/channel-seller.ts'
import { ChannelWorld, WORLD_PRICE } from '../support/channel-world.ts'

const CASES = Number(process.env.STOA_TEST_CASES ?? 12)
let devnet: Devnet
let parts: ChannelSeller

beforeAll(async () => {
  devnet = await startDevnet()
  parts = await new ChannelSeller(devnet).start()
  await parts.giveGas()
})
afterAll(async () => {
  await parts.stop()
  await devnet.stop()
})

const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('call' as const),
      kind: fc.constantFrom('good', 'good', 'fail', 'slow'),
      count: fc.integer({ min: 1, max: 6 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('release' as const, 'lose' as const, 'wait' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('kill seller' as const, 'kill buyer' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('jump' as const),
      who: fc.constantFrom('buyer', 'seller'),
      minutes: fc.integer({ min: -90, max: 90 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('keep' as const, 'refund' as const, 'finalize' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('withdraw' as const), part: fc.integer({ min: 1, max: 10 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('snapshot' as const, 'reorganize' as const) }) },
)
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

const someTurns = async () => {
  for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}

async function apply(world: ChannelWorld, it: Step): Promise<unknown> {
  // Whoever withdraws, refunds or claims may be refused. What follows from it is judged by the sums.
  const refused = () => undefined
  switch (it.do) {
    case 'call':
      for (let made = 0; made < it.count; made += 1) world.call(it.kind as 'good')
      return
    case 'release':
      return world.release()
    case 'lose':
      return world.loseConnections()
    case 'wait':
      return world.quickCalls()
    case 'kill seller':
      return world.killSeller()
    case 'kill buyer':
      return world.killBuyer()
    case 'jump':
      return world.clocks[it.who as 'buyer'].jump(it.minutes * 60_000)
    case 'keep':
      return world.keeperTurn().catch(refused)
    case 'refund':
      return world.refund().catch(refused)
    case 'finalize':
      return world.finalize().catch(refused)
    case 'withdraw':
      return world.withdraw(it.part).catch(refused)
    case 'snapshot':
      return world.snapshot()
    case 'reorganize':
      return world.reorganize()
  }
}

/** What holds at any moment. */
async function check(world: ChannelWorld): Promise<void> {
  for (const { charged, ceiling, mark, booked, isDelivered, counted, stopped, chain } of await world.sums()) {
    expect(chain.totalClaimed, 'the seller claims no more than it charged').toBeLessThanOrEqual(charged)
    expect(charged, 'the seller charges no more than was signed').toBeLessThanOrEqual(ceiling)
    expect(ceiling, 'the buyer signs nothing above its mark').toBeLessThanOrEqual(mark)
    expect(booked, 'the charges are the calls in the books').toBe(charged)
    expect(isDelivered, 'nobody is charged for a failed run').toBe(true)
    expect(counted, 'the buyer counts nothing that was not charged').toBeLessThanOrEqual(charged)
    expect(stopped, 'an honest seller is not distrusted').toBeUndefined()
  }
}

test(
  'hazard 4.3: whatever happens in whatever order, chain, books and what was delivered agree',
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 14 }), async (steps) => {
        const world = await new ChannelWorld(parts, parts.relay()).start()
        try {
          for (const it of steps) {
            await apply(world, it)
            await someTurns()
            await check(world)
          }
          await world.rest()
          await check(world)
          await world.keeperTurn().catch(() => {})
          await world.killSeller()
          for (const { charged, counted, spent, spentFor, chain } of await world.sums()) {
            expect([counted, spent]).toEqual([charged, charged])
            expect(
              spentFor.every((output) => output?.startsWith('re: ')),
              'what was paid for was delivered',
            ).toBe(true)
            expect(charged % WORLD_PRICE).toBe(0n)
            const left = smallest(chain.balance, charged)
            expect(chain.totalClaimed, 'what is left in escrow is claimed').toBe(left)
          }
        } finally {
          await world.stop()
        }
      }),
      { numRuns: CASES, endOnFailure: true, seed: Number(process.env.STOA_TEST_SEED ?? Date.now() % 1e9) },
    )
  },
  CASES * 60_000,
)
