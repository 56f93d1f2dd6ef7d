import { afterAll, beforeAll, expect, it } from 'vitest'
import { channelCalls } from '../src/chain/batch-settlement.ts'
import { createChain } from '../src/chain/chain.ts'
import { silentLogger } from '../src/lib/logger.ts'
import { signDigest } from '../src/payments/authorization.ts'
import { claimChannels, dueClaims, type SignedClaim } from '../src/payments/channels/claims.ts'
import {
  claimOf,
  openAtSeller,
  type SellerChannel,
  takeCount,
  takeVoucher,
} from '../src/payments/channels/seller-channel.ts'
import { signVoucher } from '../src/payments/voucher.ts'
import type { ChannelConfig } from '../src/schema/channel.ts'
import { type TestAccount, TestChannels } from '../test/support/test-channels.ts'
import { CHAIN_ID, type DevChain, NETWORK, startChain } from './chain.ts'
import { addresses } from './contracts.ts'

let chain: DevChain
let channels: TestChannels
const never = new AbortController().signal

beforeAll(async () => {
  chain = await startChain()
  channels = await new TestChannels(chain).start()
})
afterAll(() => chain.stop())

/** A channel as its seller has it, with charges that a voucher covers. */
async function owing(charged: bigint, { deposit = 1_000n, signer = channels.session } = {}): Promise<SellerChannel> {
  const config = await channels.open(deposit)
  return charge(openAtSeller(channels.id(config), config, await channels.state(config)), charged, signer)
}

function charge(channel: SellerChannel, charged: bigint, signer: TestAccount): SellerChannel {
  const voucher = signVoucher({ channelId: channel.id, maxClaimableAmount: charged + 50n }, signer.key, CHAIN_ID)
  return takeCount(takeVoucher(channel, voucher), { total: charged, seq: 1 })
}

/** Deposits are sent one after the other, since one account sends them. */
async function owingEach(...charges: bigint[]): Promise<SellerChannel[]> {
  const made: SellerChannel[] = []
  for (const charged of charges) made.push(await owing(charged))
  return made
}

/** What the claims of a seller need. Notes the size of each claim that was sent, and what was stored. */
function claimer(send = (claim: SignedClaim): Promise<unknown> => channels.send(channels.stranger, dataOf(claim))) {
  const sent: number[] = []
  const stored = new Map<string, SellerChannel>()
  const rpc = { network: NETWORK, asset: addresses.usdc, rpcUrl: chain.rpcUrl, timeoutMs: 30_000 } as const
  const deps = {
    ...{ chain: createChain(rpc, { logger: silentLogger }), reader: channels.reader, chainId: CHAIN_ID },
    authorizer: { sign: (digest: Uint8Array) => signDigest(digest, channels.authorizer.key) },
    async submit(claim: SignedClaim) {
      sent.push(claim.claims.length)
      await send(claim)
    },
    seen: async (channel: SellerChannel) => void stored.set(channel.id, channel),
  }
  return { deps, sent, stored, claim: (owed: readonly SellerChannel[]) => claimChannels(owed, deps, never) }
}

const dataOf = ({ claims, signature }: SignedClaim) => channelCalls.claimWithSignature(claims, signature)
const claimed = async ({ config }: { config: ChannelConfig }) => (await channels.state(config)).totalClaimed

it('claims many channels with one transaction, and nothing twice', async () => {
  const { sent, stored, claim } = claimer()
  const owed = await owingEach(100n, 200n, 300n)
  const { channels: now, failed } = await claim(owed)
  expect(failed).toEqual([])
  expect(now.map(({ onChain }) => onChain.totalClaimed)).toEqual([100n, 200n, 300n])
  expect(await Promise.all(owed.map(claimed))).toEqual([100n, 200n, 300n])
  expect([...stored.values()]).toEqual(now)
  // The seller asks by records from before: the chain knows better.
  await claim(owed)
  expect(sent).toEqual([3])
})

it('takes at most 25 rows into a transaction', async () => {
  const { sent, claim } = claimer()
  const owed = await owingEach(...Array.from({ length: 26 }, () => 1n))
  expect((await claim(owed)).failed).toEqual([])
  expect(sent).toEqual([25, 1])
})

it('leaves out a channel that the contract refuses, and claims the others', async () => {
  const { sent, claim } = claimer()
  const good = await owingEach(10n, 20n, 30n)
  const bad = await owing(40n, { signer: channels.stranger })
  const { failed } = await claim([good[0]!, bad, good[1]!, good[2]!])
  expect(failed.map(({ channel }) => channel.id)).toEqual([bad.id])
  expect(failed[0]!.reason).toMatch(/InvalidSignature|revert/)
  expect(await Promise.all(good.map(claimed))).toEqual([10n, 20n, 30n])
  expect(await claimed(bad)).toBe(0n)
  expect(sent).toEqual([3])
})

it('claims what is left after a withdrawal, and a deposit that never came costs the others nothing', async () => {
  const { claim } = claimer()
  const left = await owing(800n)
  await channels.send(channels.payer, channelCalls.initiateWithdraw(left.config, 700n))
  await channels.wait(901)
  await channels.send(channels.payer, channelCalls.finalizeWithdraw(left.config))
  const config = channels.config()
  const believed = { balance: 500n, totalClaimed: 0n, withdrawal: undefined, refundNonce: 0n }
  const phantom = charge(openAtSeller(channels.id(config), config, believed), 100n, channels.session)
  const other = await owing(50n)

  const { channels: now, failed } = await claim([left, phantom, other])
  expect(failed).toEqual([])
  expect(await claimed(left)).toBe(300n)
  expect(await claimed(other)).toBe(50n)
  const after = now.find(({ id }) => id === phantom.id)!
  expect(after).toMatchObject({ charged: 100n, onChain: { balance: 0n } })
  expect(claimOf(after)).toBeUndefined()
})

it('believes the chain, whatever the answer to a claim was', async () => {
  const lost = await owing(100n)
  // It was sent, and the answer was lost.
  const { claim } = claimer(async (signed) => {
    await channels.send(channels.stranger, dataOf(signed))
    throw new Error('the connection ended')
  })
  expect((await claim([lost])).failed).toEqual([])
  expect(await claimed(lost)).toBe(100n)

  // It was not sent, and the answer says that it was.
  const kept = await owing(100n)
  const { failed } = await claimer(async () => {}).claim([kept])
  expect(failed).toMatchObject([{ channel: { id: kept.id }, reason: expect.stringContaining('does not show it') }])
  // It was refused.
  const refused = await claimer(() => Promise.reject(new Error('no gas'))).claim([kept])
  expect(refused.failed).toMatchObject([{ reason: expect.stringContaining('no gas') }])
})

it('claims again what a reorganization has undone', async () => {
  const channel = await owing(100n)
  const { client } = chain
  const snapshot = await client.snapshot()
  const { claim } = claimer()
  const [after] = (await claim([channel])).channels
  expect(after!.onChain.totalClaimed).toBe(100n)
  await client.revert({ id: snapshot })
  expect(await claimed(channel)).toBe(0n)
  expect((await claim([after!])).channels[0]!.onChain.totalClaimed).toBe(100n)
})

it('sends nothing while the chain cannot be read', async () => {
  const channel = await owing(100n)
  const { sent, deps } = claimer()
  const away = { ...deps, reader: { channels: () => Promise.reject(new Error('away')) } }
  await expect(claimChannels([channel], away, never)).rejects.toThrow('away')
  const unclear = { ...deps, chain: { request: () => Promise.reject(new Error('no answer')) } }
  await expect(claimChannels([channel], unclear, never)).rejects.toThrow('no answer')
  expect(sent).toEqual([])
  expect((await claimChannels([channel], deps, never)).failed).toEqual([])
})

it('is due over the limit, by age, and at once when a payer takes out what it owes', async () => {
  const [small, large] = (await owingEach(10n, 500n)) as [SellerChannel, SellerChannel]
  const policy = { unclaimedMax: 499n, everyMs: 1_000 }
  expect(dueClaims([small, large], () => 0, policy)).toEqual([large])
  expect(dueClaims([small, large], () => 1_000, policy)).toEqual([small, large])
  const withdrawing = (amount: bigint) => ({
    ...small,
    onChain: { ...small.onChain, withdrawal: { amount, initiatedAt: 1 } },
  })
  const leaving = withdrawing(small.onChain.balance)
  expect(dueClaims([leaving], () => 0, policy)).toEqual([leaving])
  // What such a withdrawal leaves covers what is owed.
  expect(dueClaims([withdrawing(1n)], () => 0, policy)).toEqual([])
  const paid = { ...leaving, onChain: { ...leaving.onChain, totalClaimed: 10n } }
  expect(dueClaims([paid], () => 1_000, policy)).toEqual([])
})
