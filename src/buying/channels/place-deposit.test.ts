import { expect, onTestFinished, test, vi } from 'vitest'
import { ChannelScript } from '../../../test/support/channel-script.ts'
import { HandClock } from '../../../test/support/hand-clock.ts'
import { sellerWallet, testWallet } from '../../../test/support/payments.ts'
import { TestBuyer } from '../../../test/support/test-buyer.ts'
import { until } from '../../../test/support/until.ts'
import type { ChannelState } from '../../chain/batch-settlement.ts'
import { ChainError } from '../../chain/rpc.ts'
import { silentLogger } from '../../lib/logger.ts'
import { orAborted } from '../../lib/wait.ts'
import type { Caller } from '../../schema/caller.ts'
import type { Hex } from '../../schema/primitives.ts'
import { createBuyerChannels } from '../../store/buyer-channels.ts'
import { createTokenStore, type StoredToken } from '../../store/tokens.ts'
import { createWalletChecks, type WalletFunds } from '../wallet-checks.ts'
import { createChannels } from './channels.ts'
import type { LockRules } from './deposit-limits.ts'

const PRICE = 1_000n

type Market = {
  price?: bigint
  rules?: Partial<LockRules>
  funds?: WalletFunds
  minDeposit?: bigint
  opensByRule?: boolean
  dailyBudget?: bigint
  hasNoContract?: boolean
  isOnChannelsOnly?: boolean
  /** What the RPC makes of the states of channels. */
  shown?: ((state: ChannelState) => ChannelState) | undefined
  /** That of another process. */
  database?: TestBuyer['database']
}

/** A node that opens channels where nobody has told it to. */
async function marketOf({
  price = PRICE,
  rules = {},
  funds,
  minDeposit = 100_000n,
  dailyBudget,
  database,
  ...said
}: Market = {}) {
  const seller = new ChannelScript(price)
  const told: string[] = []
  const failures: string[] = []
  const tell = ({ err }: { err?: unknown }, text?: string) => {
    told.push(`${text}`)
    if (err instanceof Error) failures.push(err.message)
  }
  const kept = { ...(dailyBudget !== undefined && { dailyBudget }), ...(database && { database }) }
  const buyer = new TestBuyer({ open: seller.open, ...kept })
  const store = createBuyerChannels(buyer.database)
  const { opensByRule = true } = said
  const reader = {
    channels: async (ids: readonly Hex[]) => (await seller.reader.channels(ids)).map(said.shown ?? ((state) => state)),
  }
  const noContract = { channels: () => Promise.reject(new ChainError('CHAIN_UNAVAILABLE', 'no contract answers')) }
  const channels = createChannels(
    { mode: 'auto', opensByRule, aheadCalls: 10, depositMax: 1_000_000n, idleMs: Number.POSITIVE_INFINITY },
    {
      ...{ clock: buyer.clock, store, wallet: testWallet(), streams: buyer.streams, ...(funds && { funds }) },
      logger: { ...silentLogger, info: tell, warn: tell, error: tell },
      ...{ callerDid: 'did:buyer', addrsOf: () => [], stats: () => ({ calls: 0, success_rate: 1 }) },
      sender: () => Promise.reject(new Error('this test has no chain')),
      budget: {
        rules: () => ({
          ...{ perDay: undefined, perMonth: undefined, perSeller: undefined },
          autoApproveBelow: undefined,
          ...rules,
        }),
      },
      onChain: {
        takenOut: async ({ wanted }) => ({ amount: wanted, isWhole: true }),
        reader: said.hasNoContract === true ? noContract : reader,
        chain: {
          authorizationAt: async () => ({ use: { state: 'unused' }, timeMs: buyer.clock.now() }),
          blockTimeMs: async () => buyer.clock.now(),
        },
      },
    },
  )
  buyer.deps.channels = channels
  const receiver_authorizer = sellerWallet.channelSigner('claims').address
  const channel = { receiver_authorizer, withdraw_delay: 900, min_deposit: minDeposit }
  const schemes = said.isOnChannelsOnly === true && { schemes: ['batch-settlement' as const] }
  buyer.list({ price, price_atomic: `${price}`, channel, ...schemes })
  for (const service of channels.services) await service.start()
  onTestFinished(async () => {
    for (const service of channels.services) await service.stop()
  })
  /** Calls until a deposit is stored, or until it was said that none is made. */
  async function called(wish?: 'always', caller?: Caller) {
    await buyer.execute({ ...(wish && { channel: wish }), ...(caller && { caller }) }).catch(() => {})
    await until(async () => told.length > 0 || (await store.list()).length > 0)
    return (await store.list()).map(({ deposit, onChain }) => deposit?.amount ?? onChain.balance)
  }
  return { buyer, store, told, called, failures }
}

test('by itself a node locks what a seller usually wants, and asks for no more than a cheap call explains', async () => {
  expect(await (await marketOf()).called()).toEqual([100_000n])
  const greedy = { minDeposit: 1_000_000n }
  expect(await (await marketOf(greedy)).called()).toEqual([])
  // Five calls within an hour, or who calls.
  const { buyer, called } = await marketOf(greedy)
  for (let calls = 0; calls < 4; calls++) await buyer.execute().catch(() => {})
  buyer.clock.advance(11 * 60_000)
  expect(await called()).toEqual([1_000_000n])
  expect(await (await marketOf(greedy)).called('always')).toEqual([1_000_000n])
})

test.each<[string, Partial<LockRules>, bigint[]]>([
  ['the daily budget', { perDay: 99_999n }, []],
  ['the daily budget', { perDay: 100_000n }, [100_000n]],
  ['the monthly budget', { perDay: 5_000_000n, perMonth: 99_999n }, []],
  ['the budget of a seller', { perSeller: 99_999n }, []],
  ['what needs an approval', { autoApproveBelow: 100_000n }, []],
  ['what needs an approval', { autoApproveBelow: 100_001n }, [100_000n]],
])('a deposit stays within %s, also if a call wants the channel', async (_, rules, deposits) => {
  expect(await (await marketOf({ rules })).called()).toEqual(deposits)
  expect(await (await marketOf({ rules })).called('always')).toEqual(deposits)
})

test.each<[string, Partial<Pick<StoredToken, 'budget' | 'perDay'>>, bigint[]]>([
  ['less than the seller takes', { budget: 99_999n }, []],
  ['less than the seller takes a day', { budget: 500_000n, perDay: 99_999n }, []],
  ['more than the seller takes', { budget: 150_000n }, [150_000n]],
  ['more than the node locks', { perDay: 5_000_000n }, [1_000_000n]],
  ['without end', {}, [1_000_000n]],
])('a call of a token that may spend %s locks no more than that', async (_, limits, deposits) => {
  const price = 50_000n
  const { buyer, called, failures } = await marketOf({ price })
  const ends = { expiresAt: undefined, revokedAt: undefined }
  const token = { id: 'cheap', name: 'cheap', scope: 'spend', hash: new Uint8Array(32), createdAt: 1, ...ends } as const
  await createTokenStore(buyer.database).add({ ...token, budget: undefined, perDay: undefined, ...limits }, 10)
  expect(await called('always', { scope: 'spend', tokenId: token.id })).toEqual(deposits)
  const refused = /wants a deposit of 0.1 USDC, and the token of this call may lock 0.099999 USDC/
  expect(failures.filter((message) => refused.test(message))).toHaveLength(deposits.length === 0 ? 1 : 0)
})

test('calls of one token lock no more than it may spend at all sellers together', async () => {
  const { buyer, store, called } = await marketOf()
  const ends = { expiresAt: undefined, revokedAt: undefined }
  const token = { id: 'cheap', name: 'cheap', scope: 'spend', hash: new Uint8Array(32), createdAt: 1, ...ends } as const
  await createTokenStore(buyer.database).add({ ...token, budget: undefined, perDay: 250_000n }, 10)
  const caller = { scope: 'spend', tokenId: token.id } as const
  const { id, ...listing } = [...buyer.market.values()].find(({ price }) => price === PRICE)!
  expect(await called('always', caller)).toEqual([100_000n])
  const others = ['second', 'third', 'fourth'].map((name) => ({ ...listing, id: `${name}-${id}`, seller_id: name }))
  for (const other of others) buyer.list(other)
  await Promise.all(
    others.map((other) => buyer.execute({ agentId: other.id, channel: 'always', caller }).catch(() => {})),
  )
  await until(async () => (await store.list()).length > 1)
  await buyer.execute({ agentId: others[2]!.id, channel: 'always', caller }).catch(() => {})
  expect((await store.list()).map(({ deposit, onChain }) => deposit?.amount ?? onChain.balance)).toEqual([
    100_000n,
    100_000n,
  ])
})

test('calls of one token lock no more than it may spend, at whatever process, and after a restart', async () => {
  const first = await marketOf()
  const ends = { expiresAt: undefined, revokedAt: undefined }
  const token = { id: 'cheap', name: 'cheap', scope: 'spend', hash: new Uint8Array(32), createdAt: 1, ...ends } as const
  await createTokenStore(first.buyer.database).add({ ...token, budget: undefined, perDay: 250_000n }, 10)
  const caller = { scope: 'spend', tokenId: token.id } as const
  expect(await first.called('always', caller)).toEqual([100_000n])
  const { buyer, store, told, failures } = await marketOf({ database: first.buyer.database })
  const { id, ...listing } = [...buyer.market.values()].find(({ price }) => price === PRICE)!
  for (const name of ['second', 'third']) {
    const other = { ...listing, id: `${name}-${id}`, seller_id: name }
    buyer.list(other)
    const before = (await store.list()).length
    await buyer.execute({ agentId: other.id, channel: 'always', caller }).catch(() => {})
    await until(async () => told.length > 0 || (await store.list()).length > before)
  }
  expect((await store.list()).map(({ sellerId }) => sellerId)).toEqual(['second', 'seller'])
  expect(failures).toEqual([expect.stringMatching(/the token of this call may lock 0.05 USDC/)])
  // Those of others are not its own.
  await buyer.execute({ agentId: `third-${id}`, channel: 'always' }).catch(() => {})
  buyer.clock.advance(11 * 60_000)
  await buyer.execute({ agentId: `third-${id}`, channel: 'always' }).catch(() => {})
  await until(async () => (await store.list()).length === 3)
})

test('no money is locked for a call that this node does not pay', async () => {
  const { called, store } = await marketOf({ dailyBudget: PRICE - 1n })
  expect(await called()).toEqual([])
  expect(await store.list()).toEqual([])
})

test('by itself a node locks at most half of its wallet, because payments may be under way', async () => {
  const holding = (balance: bigint): WalletFunds => ({
    async check(amount) {
      if (amount > balance) throw new Error('too little USDC')
    },
  })
  expect(await (await marketOf({ funds: holding(199_999n) })).called()).toEqual([])
  expect(await (await marketOf({ funds: holding(200_000n) })).called()).toEqual([100_000n])
  expect(await (await marketOf({ funds: holding(100_000n) })).called('always')).toEqual([100_000n])
})

test('a deposit is made if the RPC says nothing of the wallet in time, as a payment is', async () => {
  const timeout = AbortSignal.timeout.bind(AbortSignal)
  const late = AbortSignal.abort(new DOMException('too late', 'TimeoutError'))
  const limits = vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) => (ms <= 5_000 ? late : timeout(ms)))
  onTestFinished(() => limits.mockRestore())
  const silent = (signal: AbortSignal | undefined) => orAborted(new Promise<never>(() => {}), signal ?? late)
  const chain = {
    network: 'eip155:84532',
    request: (_method: string, _params: readonly unknown[], signal?: AbortSignal) => silent(signal),
    usdcBalance: (_address: Hex, signal?: AbortSignal) => silent(signal),
  } as const
  const funds = createWalletChecks({ clock: new HandClock(), logger: silentLogger, wallet: testWallet(), chain })
  expect(await (await marketOf({ funds })).called()).toEqual([100_000n])
})

test.each<[string, Partial<ChannelState>]>([
  ['claims', { balance: 9_000_000n, totalClaimed: 9_000_000n }],
  ['money', { balance: 1n }],
  ['a withdrawal', { withdrawal: { amount: 1n, initiatedAt: 1 } }],
  ['a refund', { refundNonce: 1n }],
])(
  'T15: an RPC that shows %s in a channel that is not open yet brings no deposit, and no voucher above its claims',
  async (_, lie) => {
    const { called, failures, buyer } = await marketOf({ shown: (state) => ({ ...state, ...lie }) })
    expect(await called('always')).toEqual([])
    expect(failures).toEqual([expect.stringMatching(/the RPC shows a channel as used that is not open yet/)])
    expect(await buyer.spent()).toBe(0n)
  },
)

test('where the chain has no contract, nothing is locked and the call is paid for by itself', async () => {
  const { called, buyer, told } = await marketOf({ hasNoContract: true })
  expect(await called()).toEqual([])
  expect(told).toEqual(['no deposit was made into a payment channel'])
  // This seller is asked for `exact`.
  await expect(buyer.execute()).rejects.toMatchObject({ code: 'OVERLOADED' })
})

test('the node of one command opens no channel that nobody would look after, unless a call wants it', async () => {
  const { buyer, store, called } = await marketOf({ opensByRule: false })
  for (let calls = 0; calls < 6; calls++) await buyer.execute().catch(() => {})
  expect(await store.list()).toEqual([])
  expect(await called('always')).toEqual([100_000n])
})

test('a call that only a channel can pay locks no more at a stranger than others do, unless it asks for the channel', async () => {
  const only = { isOnChannelsOnly: true }
  expect(await (await marketOf({ ...only, opensByRule: false })).called()).toEqual([100_000n])
  const { buyer, store, called } = await marketOf({ ...only, minDeposit: 1_000_000n })
  const refused = { code: 'CHANNEL_NEEDED', message: expect.stringMatching(/wants a deposit of 1 USDC.*--channel/) }
  await expect(buyer.execute()).rejects.toMatchObject(refused)
  expect(await store.list()).toEqual([])
  buyer.clock.advance(11 * 60_000)
  expect(await called('always')).toEqual([1_000_000n])
})
