/** A metered language model on a real chain: what a call costs is what the model has counted, on the chain as in both books. */
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { Listing } from '../../src/schema/listing.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { startTokenLlm, type TokenLlm } from '../support/token-llm.ts'
import { until } from '../support/until.ts'

let devnet: Devnet
let llm: TokenLlm
let seller: TestNode
let buyer: TestNode
let listing: Listing
const sellerKey = generatePrivateKey()

/** Atomic units: 10 for a token that the model reads, 100 for one that it writes. */
const pricing = { per_1k_input_tokens: 10_000n, per_1k_output_tokens: 100_000n, max: 100_000n }

beforeAll(async () => {
  devnet = await startDevnet()
  llm = await startTokenLlm()
  await devnet.fund(privateKeyToAccount(sellerKey).address, 0n)
  seller = await startTestNode({
    ...{ devnet, walletKey: sellerKey, openaiBaseUrl: llm.url },
    seller: { channels: 'auto' },
  })
  await seller.node.registerAgent(
    { name: 'Writer', description: 'Writes words.', model: 'openai-compatible/counting', pricing },
    { persist: false },
  )
  const bootstrap = [seller.node.addresses().find((address) => address.includes('/tcp/'))!]
  buyer = await startTestNode({
    ...{ devnet, walletKey: devnet.wallets.buyer.privateKey, bootstrap },
    channels: 'auto',
  })
  listing = await until(() => buyer.node.listings().find(({ name }) => name === 'Writer'))
})
afterAll(async () => {
  await buyer?.stop()
  await seller?.stop()
  await llm?.[Symbol.asyncDispose]()
  await devnet?.stop()
})

let sum = 0n
/** Calls the agent, and compares the charge with what the model has counted. */
async function write(words: number, onOutput?: (text: string) => void): Promise<string> {
  const onProgress = ({ type, data }: { type: string; data: object }) => {
    if (type === 'output') onOutput?.((data as { text: string }).text)
  }
  const { output, payment } = await buyer.node.execute({
    ...{ agentId: listing.id, input: `write ${words} words`, signal: AbortSignal.timeout(60_000) },
    ...(onOutput && { onProgress }),
  })
  const { prompt_tokens: read, completion_tokens: written } = llm.usages.at(-1)!
  const used = 10n * BigInt(read) + 100n * BigInt(written)
  const charge = used < pricing.max ? used : pricing.max
  expect(payment?.amount_atomic).toBe(`${charge}`)
  sum += charge
  return output
}

test('ADR-37 the listing says what a call is charged for, and that it needs a channel', () => {
  expect(listing).toMatchObject({ price: pricing.max, schemes: ['batch-settlement'], pricing })
})

test('ADR-37 a call costs the tokens of the model, and never more than the most', async () => {
  expect((await write(100)).split(' ')).toHaveLength(100)
  await write(1)
  // What it wrote would cost three times the most.
  await write(3_000)
})

test('ADR-37 a call whose model fails costs nothing', async () => {
  const call = buyer.node.execute({ agentId: listing.id, input: 'fail', signal: AbortSignal.timeout(60_000) })
  await expect(call).rejects.toMatchObject({ code: 'EXECUTION_FAILED' })
})

test('ADR-37 a stream is paid for as it comes, and costs the tokens of the model in the end', async () => {
  let shown = ''
  const output = await write(600, (text) => {
    shown += text
  })
  expect(output.split(' ')).toHaveLength(600)
  expect(output.startsWith(shown.trim().slice(0, 100))).toBe(true)
  expect(shown.length).toBeGreaterThan(0)
})

test('ADR-37 both books and the chain agree to the unit', async () => {
  await until(async () => (await seller.node.stats({ days: 1 })).earned.total_atomic === `${sum}`)
  await until(async () => (await buyer.node.stats({ days: 1 })).paid.total_atomic === `${sum}`)
  const account = privateKeyToAccount(sellerKey).address
  expect(await devnet.chain.balanceOf(account)).toBe(0n)
  await buyer.stop()
  // The stop claims what the channel owes and moves it to the wallet.
  await seller.stop()
  expect(await devnet.chain.balanceOf(account)).toBe(sum)
})
