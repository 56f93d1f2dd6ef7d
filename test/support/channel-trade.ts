import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Devnet } from '../../devnet/devnet.ts'
import { batchSettlementAddress, createChannelReader } from '../../src/chain/batch-settlement.ts'
import { createChain } from '../../src/chain/chain.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { toHex } from '../../src/store/hex.ts'
import { all, type Query, together } from '../../src/store/query.ts'
import { CHANNEL_ASSET } from './channel-seller.ts'
import { askLedger, askServer } from './ledger-engine.ts'
import { until } from './until.ts'

/** Below the price from which a call opens a channel at once. Twelve of them are enough to be moved to the wallet. */
export const CHANNEL_PRICE = 9_000n
/** What a buyer deposits first. */
export const CHANNEL_DEPOSIT = 20n * CHANNEL_PRICE

/** A data directory whose node trades over channels, with an agent that repeats its task and one that fails. Each run leaves a line. */
export async function writeChannelNode(dir: string, runs: string): Promise<void> {
  const settings = { seller: { channels: 'auto' }, buyer: { channels: 'auto', channel_deposit_max: 1 } }
  const agent = (name: string, script: string) => {
    const command = ['/bin/sh', '-c', script, runs]
    return { name, description: `${name}s its task`, price: Number(CHANNEL_PRICE) / 1e6, command }
  }
  const agents = [agent('repeat', 'echo run >> "$0"; cat'), agent('fail', 'echo run >> "$0"; exit 1')]
  // JSON is valid YAML.
  await writeFile(join(dir, 'config.yaml'), JSON.stringify(settings), { mode: 0o600 })
  await writeFile(join(dir, 'agents.yaml'), JSON.stringify({ agents }), { mode: 0o600 })
}

type Paid = { payment?: { tx_hash: string; settlement: string } | null | undefined }

/** True if a channel paid for a call: it is settled without a transaction of its own. */
export const isOnChannel = ({ payment }: Paid) => payment?.settlement === 'settled' && payment.tx_hash === ''

/** Makes calls until a channel pays for one. @returns how many calls were made */
export async function untilOnChannel(call: () => Promise<Paid>): Promise<number> {
  let made = 0
  await until(
    async () => {
      made += 1
      return isOnChannel(await call())
    },
    // Some of these calls are paid by transactions of their own: seconds each, beside other tests on a busy machine many.
    { timeoutMs: 240_000, everyMs: 200 },
  )
  return made
}

/** @param ledger a data directory, or the address of a database */
const askAny = <T>(ledger: string, query: Query<T>) =>
  ledger.startsWith('postgres') ? askServer(ledger, query) : askLedger(ledger, query)

type SoldRow = { state: string; amount: number; channel: Uint8Array | null; channel_seq: number | null }
type SellerRow = { id: Uint8Array; charged: string; seq: number; ceiling: string | null }

/** What the ledger of a seller says of its channels, and of the calls that they paid. */
export async function readSellerChannels(ledger: string) {
  const [sold, channels] = await askAny(
    ledger,
    together(
      all<SoldRow>('SELECT state, amount, channel, channel_seq FROM payments ORDER BY no'),
      all<SellerRow>('SELECT id, charged, seq, ceiling FROM seller_channels'),
    ),
  )
  return channels.map(({ id: bytes, charged, seq, ceiling }) => {
    const id = toHex(bytes)
    const calls = sold.filter(({ channel }) => channel !== null && toHex(channel) === id)
    const settled = calls.filter(({ state }) => state === 'settled')
    return {
      ...{ id, charged: BigInt(charged), seq, ceiling: BigInt(ceiling ?? 0) },
      booked: settled.reduce((sum, { amount }) => sum + BigInt(amount), 0n),
      numbers: settled.map(({ channel_seq }) => channel_seq!).toSorted((a, b) => a - b),
      failed: calls.length - settled.length,
    }
  })
}

type BuyerRow = {
  no: number
  id: Hex
  mark: string
  charged: string
  seq: number
  early: string
  stopped: string | null
}
type CallRow = { status: string; state: string | null; amount: number | null; channel: number | null }

/** What the ledger of a buyer says of its channels, and of the calls that they paid. */
export async function readBuyerChannels(ledger: string) {
  const [channels, calls, days] = await askAny(
    ledger,
    together(
      all<BuyerRow>('SELECT no, id, mark, charged, seq, early, stopped FROM buyer_channels'),
      all<CallRow>(
        'SELECT o.status, a.state, a.amount, a.channel FROM orders o LEFT JOIN authorizations a ON a.order_no = o.no ORDER BY o.no',
      ),
      all<{ amount: number }>(`SELECT amount FROM spending WHERE scope = '' AND length(period) = 10`),
    ),
  )
  const sumOf = (of: readonly CallRow[], wanted: string) =>
    of.filter(({ state }) => state === wanted).reduce((sum, { amount }) => sum + BigInt(amount!), 0n)
  const alone = calls.filter(({ channel }) => channel === null)
  return {
    spent: days.reduce((sum, { amount }) => sum + BigInt(amount), 0n),
    orders: calls,
    /** What was paid without a channel, and what may be yet. */
    ...{ exact: sumOf(alone, 'spent'), held: sumOf(alone, 'reserved') },
    channels: channels.map(({ no, id, mark, charged, seq, early, stopped }) => ({
      ...{
        id,
        mark: BigInt(mark),
        charged: BigInt(charged),
        seq,
        stopped,
        early: (JSON.parse(early) as unknown[]).length,
      },
      booked: sumOf(
        calls.filter(({ channel }) => channel === no),
        'spent',
      ),
    })),
  }
}

/** Reads the contract of payment channels, and what of USDC lies in it. */
export function channelChain({ rpcUrl, chain }: Devnet) {
  const { network, address: asset } = CHANNEL_ASSET
  const reader = createChannelReader(
    createChain({ network, asset, rpcUrl, timeoutMs: 30_000 }, { logger: silentLogger }),
  )
  return {
    state: async (id: Hex) => (await reader.channels([id]))[0]!,
    escrow: () => chain.balanceOf(batchSettlementAddress),
    receiver: (account: Hex) => reader.receiver(account, asset),
  }
}

/**
 * Waits until the chain shows as claimed what the channels of a stopped seller have charged. A process has five seconds to stop:
 * what it has not claimed when they are over, the next one claims.
 *
 * @param again starts a process of the seller and stops it
 */
export async function untilClaimed(ledger: string, devnet: Devnet, again: () => Promise<unknown>): Promise<void> {
  const { state } = channelChain(devnet)
  const isClaimed = async () => {
    const channels = await readSellerChannels(ledger)
    const states = await Promise.all(channels.map(({ id }) => state(id)))
    return channels.every(({ charged }, index) => states[index]!.totalClaimed >= charged)
  }
  await until(async () => (await isClaimed()) || void (await again()), { timeoutMs: 180_000 })
}

/** What does not fit between both books of one channel. The chain is compared by the caller. */
export function troubleOfBooks(
  seller: Awaited<ReturnType<typeof readSellerChannels>>[number],
  buyer: Awaited<ReturnType<typeof readBuyerChannels>>['channels'][number],
): string[] {
  const numbers = Array.from({ length: seller.seq }, (_, index) => index + 1)
  const rules: [boolean, string][] = [
    [seller.booked === seller.charged, `the seller has ${seller.booked} in its books and charged ${seller.charged}`],
    [`${seller.numbers}` === `${numbers}`, `the charges have the numbers ${seller.numbers}`],
    [seller.charged <= seller.ceiling, `charged ${seller.charged} above the voucher of ${seller.ceiling}`],
    [seller.ceiling <= buyer.mark, `the buyer signed ${seller.ceiling} above its mark of ${buyer.mark}`],
    [buyer.booked === buyer.charged, `the buyer has ${buyer.booked} in its books and counted ${buyer.charged}`],
    [buyer.charged === seller.charged, `the buyer counted ${buyer.charged}, the seller charged ${seller.charged}`],
    [buyer.seq === seller.seq, `the buyer counted ${buyer.seq} charges, the seller ${seller.seq}`],
    [buyer.early === 0, `${buyer.early} charges wait for an earlier one`],
    [buyer.stopped === null, `the channel has stopped: ${buyer.stopped}`],
  ]
  return rules.filter(([holds]) => !holds).map(([, what]) => what)
}
