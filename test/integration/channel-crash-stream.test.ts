/** Both sides killed in the middle of a stream that is paid for as it comes: real processes, SIGKILL, the real chain. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { ExecutionResult } from '../../src/schema/api.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { ask } from '../support/api-calls.ts'
import {
  channelChain,
  readBuyerChannels,
  readSellerChannels,
  troubleOfBooks,
  untilClaimed,
} from '../support/channel-trade.ts'
import { localAddress } from '../support/loopback.ts'
import { testDir } from '../support/loopback-node.ts'
import { killNodeProcesses, type NodeProcess, startNodeProcess } from '../support/node-process.ts'
import { startTokenLlm, type TokenLlm } from '../support/token-llm.ts'
import { until } from '../support/until.ts'

let devnet: Devnet
const models: TokenLlm[] = []
const FUNDS = 10_000_000n
/** Atomic units: 10 for a token that the model reads, 100 for one that it writes. A stream begins with 2,000 and some. */
const PRICE = { read: 10, written: 100, max: 20_000 }
/** Costs three quarters of the most. */
const WORDS = 150
const BUSY = { timeoutMs: 60_000, everyMs: 100 }

beforeAll(async () => {
  devnet = await startDevnet()
})
afterAll(async () => {
  await killNodeProcesses()
  for (const model of models) await model[Symbol.asyncDispose]()
  await devnet.stop()
})

type Side = { dir: string; account: Hex; start(faultPoint?: string, bootstrap?: NodeProcess): Promise<NodeProcess> }

async function newSide(role: 'BUYER' | 'SELLER', environment: Record<string, string> = {}): Promise<Side> {
  const dir = await testDir()
  const key = generatePrivateKey()
  const { rpcUrl, facilitatorUrl } = devnet
  const shared = { ETHEREUM_RPC_URL: rpcUrl, FACILITATOR_URL: facilitatorUrl, [`${role}_PRIVATE_KEY`]: key }
  const account = privateKeyToAccount(key).address
  return {
    ...{ dir, account },
    start(faultPoint, bootstrap) {
      const args = ['--data-dir', dir, ...(bootstrap ? ['--bootstrap', localAddress(bootstrap.ready.addresses)] : [])]
      return startNodeProcess({ faultPoint, armsLater: true, args, environment: { ...shared, ...environment } })
    },
  }
}

/** A buyer with money, and a seller of a model that is charged by the token, on channels only. */
async function newMarket() {
  const llm = await startTokenLlm()
  models.push(llm)
  const buyer = await newSide('BUYER')
  const seller = await newSide('SELLER', { OPENAI_BASE_URL: llm.url })
  await devnet.fund(buyer.account, FUNDS)
  await devnet.fund(seller.account, 0n)
  const usdc = (atomic: number) => atomic / 1e6
  const pricing = {
    ...{ per_1k_input_tokens: usdc(1_000 * PRICE.read), per_1k_output_tokens: usdc(1_000 * PRICE.written) },
    max: usdc(PRICE.max),
  }
  const writer = { name: 'Writer', description: 'Writes words.', model: 'openai-compatible/counting', pricing }
  await writeFile(join(seller.dir, 'agents.yaml'), JSON.stringify({ agents: [writer] }), { mode: 0o600 })
  return { llm, buyer, seller }
}

type Listed = { id: string; channel?: object }

/** Buys a run whose output is watched. @returns what was shown, and the result if the buyer lives to have it */
async function stream({ ready }: NodeProcess, words: number) {
  const agent = await until(
    async () => (await ask<Listed[]>(ready.api_url, '/agents')).find(({ channel }) => channel !== undefined),
    BUSY,
  )
  const response = await fetch(`${ready.api_url}/agents/${agent.id}/execute`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'text/event-stream' },
    body: JSON.stringify({ task: `write ${words} words` }),
  })
  let text = ''
  const decoder = new TextDecoder()
  try {
    for await (const part of response.body!) text += decoder.decode(part, { stream: true })
  } catch {
    // The buyer was killed.
  }
  const events = text.split('\n\n').flatMap((event) => {
    const [, name, data] = /event: (\w+)\ndata: (.*)/.exec(event) ?? []
    return name === undefined ? [] : [{ name, data: JSON.parse(data!) as { text?: string } & ExecutionResult }]
  })
  expect(events.filter(({ name }) => name === 'error')).toEqual([])
  const shown = events.flatMap(({ name, data }) => (name === 'output' ? [data.text] : [])).join('')
  return { shown, result: events.find(({ name }) => name === 'result')?.data }
}

const words = (text: string) => text.split(' ').filter(Boolean).length

/** Waits until the ledger of a buyer has no call left whose outcome is not known. */
async function settled(dir: string): Promise<void> {
  const open = async () => {
    const { orders, channels } = await readBuyerChannels(dir)
    const isOpen = orders.some(({ status, state }) => status === 'executing' || state === 'reserved')
    return isOpen || channels.some(({ early }) => early > 0)
  }
  await until(async () => !(await open()), BUSY)
}

describe('hazards 4.1 and 4.2: in the middle of a stream that is paid for as it comes,', () => {
  test.each([
    ['seller:stream-voucher-taken', 'nothing was charged: it runs again, and is charged once', 2],
    ['seller:executed', 'the result is lost: it runs again, and is charged once', 2],
    ['seller:channel-charged', 'the result is asked for, and charged once', 1],
  ])('a seller killed at %s: %s', async (faultPoint, _what, runs) => {
    const { llm, buyer, seller } = await newMarket()
    const buying = await buyer.start()
    const first = await seller.start(faultPoint, buying)
    await stream(buying, 1)
    await first.arm()
    const asked = stream(buying, WORDS)
    expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' })
    const second = await seller.start(undefined, buying)
    const { result } = await asked
    expect(words(result!.output)).toBe(WORDS)
    expect(llm.usages.length).toBe(1 + runs)
    const { prompt_tokens: read } = llm.usages.at(-1)!
    expect(result!.payment).toMatchObject({
      amount_atomic: `${read * PRICE.read + WORDS * PRICE.written}`,
      settlement: 'settled',
    })
    expect(result!.payment).not.toHaveProperty('cut')
    // The channel goes on.
    expect((await stream(buying, 1)).result).toMatchObject({ payment: { settlement: 'settled', tx_hash: '' } })
    await judge({ buyer, seller }, { buying, selling: second })
  })

  test.each([
    ['buyer:stream-voucher-signed', 'the seller waits for it, and charges what it has shown'],
    ['buyer:stream-voucher-sent', 'what it covers may be shown, and no more is charged'],
  ])('a buyer killed at %s: %s', async (faultPoint) => {
    const { buyer, seller } = await newMarket()
    const selling = await seller.start()
    const first = await buyer.start(faultPoint, selling)
    await stream(first, 1)
    await first.arm()
    const { result } = await stream(first, WORDS)
    expect([result, await first.exited]).toEqual([undefined, { code: null, signal: 'SIGKILL' }])
    const second = await buyer.start(undefined, selling)
    await settled(buyer.dir)
    type Bought = {
      output: string
      payment: { amount_atomic: string; cut?: boolean; units: { output_tokens: number } }
    }
    const orders = await ask<{ status: string; id: string }[]>(second.ready.api_url, '/orders')
    expect(orders.map(({ status }) => status)).toEqual(['completed', 'completed'])
    const order = await ask<Bought>(second.ready.api_url, `/orders/${orders[0]!.id}`)
    // It has what it paid for, and has not paid for what nobody covered.
    const { cut, amount_atomic: amount, units } = order.payment
    expect([cut, units.output_tokens]).toEqual([true, words(order.output)])
    expect(units.output_tokens).toBeGreaterThan(0)
    expect(Number(amount)).toBeLessThan(WORDS * PRICE.written)
    expect((await stream(second, 1)).result).toMatchObject({ payment: { settlement: 'settled', tx_hash: '' } })
    await judge({ buyer, seller }, { buying: second, selling })
  })
})

/** Both books of the only channel agree, and with what the chain has of it. */
async function judge(
  { buyer, seller }: { buyer: Side; seller: Side },
  { buying, selling }: { buying: NodeProcess; selling: NodeProcess },
): Promise<void> {
  await settled(buyer.dir)
  await buying.stop()
  await selling.stop()
  await untilClaimed(seller.dir, devnet, async () => (await seller.start()).stop())
  const [bought, ...otherBought] = (await readBuyerChannels(buyer.dir)).channels
  const [sold, ...otherSold] = await readSellerChannels(seller.dir)
  expect([otherBought, otherSold]).toEqual([[], []])
  expect(troubleOfBooks(sold!, bought!)).toEqual([])
  const { state, receiver } = channelChain(devnet)
  const { balance, totalClaimed } = await state(sold!.id)
  // Stops of the seller have claimed all that it has charged.
  expect(totalClaimed).toBe(sold!.charged)
  const { totalClaimed: claimed, totalSettled } = await receiver(seller.account)
  expect((await devnet.chain.balanceOf(seller.account)) + claimed - totalSettled).toBe(sold!.charged)
  expect(await devnet.chain.balanceOf(buyer.account)).toBe(FUNDS - balance)
}
