/** T36 ADR-35: the reference client of x402's `batch-settlement` buys agents over HTTP on payment channels, on a real chain. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { Agent, type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decodePaymentRequiredHeader, decodePaymentResponseHeader } from '@x402/core/http'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { Stats } from '../../src/schema/ledger.ts'
import { ask } from '../support/api-calls.ts'
import { referenceClient } from '../support/http-channel-buyer.ts'
import { send, sendTask } from '../support/public-seller.ts'
import { accountOf } from '../support/test-channels.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

const PRICE = 1_000n
const MISMATCH = 'invalid_batch_settlement_evm_cumulative_amount_mismatch'
let devnet: Devnet
let seller: TestNode
let home: string
let url: string
let otherUrl: string
const runs: string[] = []
const runsOf = (task: string) => runs.filter((run) => run === task).length

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-public-channels-'))
  devnet = await startDevnet()
  seller = await startTestNode({
    ...{ devnet, walletKey: devnet.wallets.seller.privateKey, dataDir: join(home, 'seller') },
    ...{ public: { port: 0 }, seller: { channels: 'auto' } },
  })
  url = await sell('echo', PRICE)
  otherUrl = await sell('dearer', 3n * PRICE)
})
afterAll(async () => {
  await seller?.stop()
  await devnet?.stop()
  await rm(home, { recursive: true, force: true })
})

async function sell(name: string, price: bigint) {
  const run = (task: string) => {
    runs.push(task)
    if (task.startsWith('fail')) throw new Error('it fails')
    return task
  }
  const { id } = await seller.node.registerAgent({ name, description: 'Says it again', price }, { persist: false, run })
  return `${seller.publicUrl}/x402/${id}`
}

/** Every request that this buyer sends is kept. */
async function startBuyer(keys = { wallet: accountOf(), session: accountOf() }) {
  const { wallet } = keys
  if ((await devnet.chain.balanceOf(wallet.address)) === 0n) await devnet.fund(wallet.address, 1_000_000n)
  const sent: string[] = []
  const statuses: number[] = []
  const kept: typeof fetch = async (input, init) => {
    const request = new Request(input, init)
    const header = request.headers.get('payment-signature')
    if (header !== null) sent.push(header)
    const answer = await fetch(request)
    statuses.push(answer.status)
    return answer
  }
  const { client, pay } = referenceClient(devnet, keys, kept)
  const buy = async (task: string, at = url) => {
    const headers = { 'content-type': 'application/json' }
    const answer = await pay(at, { method: 'POST', headers, body: JSON.stringify({ task }) })
    const header = answer.headers.get('payment-response')
    const settled = header === null ? undefined : (decodePaymentResponseHeader(header) as SettledExtra)
    return { status: answer.status, body: (await answer.json()) as { result?: string }, settled }
  }
  const balance = () => devnet.chain.balanceOf(wallet.address)
  return { buy, sent, statuses, client, keys, balance }
}
type SettledExtra = ReturnType<typeof decodePaymentResponseHeader> & {
  extra?: { chargedAmount?: string; channelState?: Record<string, unknown> }
}

const paying = (header: string) => ({ 'payment-signature': header })
const errorIn = ({ headers }: { headers: Headers }) =>
  decodePaymentRequiredHeader(headers.get('payment-required')!) as {
    error?: string
    accepts: { scheme: string; extra: Record<string, { signature?: string }> }[]
  }

test('a channel is opened by one deposit, and pays many calls at two agents without a transaction', async () => {
  const buyer = await startBuyer()
  const before = await buyer.balance()
  const first = await buyer.buy('call 0')
  expect([first.status, first.body]).toEqual([200, { result: 'call 0' }])
  expect(first.settled).toMatchObject({ success: true, transaction: expect.stringMatching(/^0x[0-9a-f]{64}$/) })
  const deposit = before - (await buyer.balance())
  expect(deposit).toBe(100_000n)
  for (let n = 1; n <= 10; n++) {
    const { status, body, settled } = await buyer.buy(`call ${n}`)
    expect([status, body]).toEqual([200, { result: `call ${n}` }])
    expect(settled).toMatchObject({
      ...{ success: true, transaction: '', payer: buyer.keys.wallet.address },
      extra: {
        chargedAmount: '1000',
        channelState: { balance: '100000', chargedCumulativeAmount: `${PRICE * BigInt(n + 1)}` },
      },
    })
  }
  const dear = await buyer.buy('dear', otherUrl)
  expect(dear.settled?.extra).toMatchObject({ chargedAmount: '3000' })
  expect(before - (await buyer.balance())).toBe(deposit)
  expect(buyer.statuses.filter((status) => status === 402)).toHaveLength(12)
  const { doors } = await ask<Stats>(seller.url, '/stats')
  const sold = doors.find(({ door }) => door === 'http')
  expect(sold).toMatchObject({ calls: 12 })
})

test('a client that has lost its state is corrected once, and goes on', async () => {
  const first = await startBuyer()
  await first.buy('before 1')
  await first.buy('before 2')
  const again = await startBuyer(first.keys)
  const { status, settled } = await again.buy('after')
  expect([status, settled?.extra?.channelState]).toMatchObject([200, { chargedCumulativeAmount: '3000' }])
  expect(again.statuses).toEqual([402, 402, 200])
  expect(runsOf('after')).toBe(1)
})

describe('a voucher buys one run', () => {
  test('the same request gets its stored result, also ten times at once, and another one buys nothing', async () => {
    const buyer = await startBuyer()
    await buyer.buy('once')
    const header = buyer.sent.at(-1)!
    const answers = await Promise.all(Array.from({ length: 10 }, () => sendTask(url, 'once', paying(header))))
    expect(answers.map(({ status, json }) => [status, json])).toEqual(answers.map(() => [200, { result: 'once' }]))
    expect(runsOf('once')).toBe(1)
    const others = await Promise.all([
      sendTask(url, 'twice', paying(header)),
      sendTask(otherUrl, 'once', paying(header)),
      send(url, { headers: { 'content-type': 'text/plain', ...paying(header) }, body: 'once' }),
    ])
    const reasons = others.map((other) => [other.status, errorIn(other).error])
    const isOther = 'No matching payment requirements: accepted.amount is not what is asked'
    expect(reasons).toEqual([MISMATCH, isOther, MISMATCH].map((reason) => [402, reason]))
    // A dearer agent is not sold for this voucher either if its terms are said to be accepted.
    const dearer = decodePaymentRequiredHeader((await send(otherUrl)).headers.get('payment-required')!)
    const accepted = dearer.accepts.find(({ scheme }) => scheme === 'batch-settlement')
    const sent = JSON.parse(Buffer.from(header, 'base64').toString())
    const text = Buffer.from(JSON.stringify({ ...sent, accepted })).toString('base64')
    expect(errorIn(await sendTask(otherUrl, 'once', paying(text))).error).toBe(MISMATCH)
    expect([runsOf('once'), runsOf('twice')]).toEqual([1, 0])
    const { settled } = await buyer.buy('next')
    expect(settled?.extra?.channelState).toMatchObject({ chargedCumulativeAmount: '2000' })
  })

  test('sent with ten tasks at once, one runs', async () => {
    const buyer = await startBuyer()
    await buyer.buy('opens')
    const header = await nextVoucher(buyer)
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, at) => sendTask(url, `race ${at}`, paying(header))),
    )
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, ...Array(9).fill(402)])
    expect(runs.filter((run) => run.startsWith('race'))).toHaveLength(1)
  })

  test('a run that fails costs nothing, and the same voucher pays the next call', async () => {
    const buyer = await startBuyer()
    await buyer.buy('works')
    expect((await buyer.buy('fail 1')).status).toBe(502)
    expect((await buyer.buy('fail 1')).status).toBe(502)
    expect(runsOf('fail 1')).toBe(2)
    const { status, settled } = await buyer.buy('works again')
    expect([status, settled?.extra?.channelState]).toMatchObject([200, { chargedCumulativeAmount: '2000' }])
  })

  test('after a dearer call failed, a cheaper one is paid by a lower voucher, and so is a refund', async () => {
    const buyer = await startBuyer()
    await buyer.buy('opens')
    expect((await buyer.buy('fail dear', otherUrl)).status).toBe(502)
    const { status, settled } = await buyer.buy('cheap')
    expect([status, settled?.extra?.channelState]).toMatchObject([200, { chargedCumulativeAmount: '2000' }])
    expect((await buyer.buy('dear', otherUrl)).status).toBe(200)
    const before = await buyer.balance()
    await buyer.client.refund(url)
    expect((await buyer.balance()) - before).toBe(100_000n - 5n * PRICE)
  })

  test('a lower voucher than the best one buys nothing, and an unspent one is not shown', async () => {
    const buyer = await startBuyer()
    await buyer.buy('one')
    const spent = buyer.sent.at(-1)!
    const known = errorIn(await sendTask(url, 'stolen', paying(spent)))
    expect(onChannel(known).extra.voucherState?.signature).toMatch(/^0x/)
    expect((await buyer.buy('fail')).status).toBe(502)
    const again = errorIn(await sendTask(url, 'stolen', paying(spent)))
    expect(onChannel(again).extra.voucherState).toEqual(onChannel(known).extra.voucherState)
    expect(runsOf('stolen')).toBe(0)
  })
})

/** The voucher for the next call, which was not sent. */
async function nextVoucher({ sent, keys, client }: Awaited<ReturnType<typeof startBuyer>>): Promise<string> {
  expect(sent.length + keys.wallet.address.length).toBeGreaterThan(0)
  const terms = errorIn(await send(url))
  const accepted = onChannel(terms)
  const made = await client.createPaymentPayload(2, accepted as never)
  return Buffer.from(JSON.stringify({ ...made, accepted })).toString('base64')
}

function onChannel({ accepts }: ReturnType<typeof errorIn>) {
  return accepts.find(({ scheme }) => scheme === 'batch-settlement')!
}

test('what is forged or not as asked buys nothing', async () => {
  const buyer = await startBuyer()
  await buyer.buy('real')
  const header = await nextVoucher(buyer)
  type Sent = { accepted: object; payload: { channelConfig: object; voucher: Record<string, string> } }
  const sent = JSON.parse(Buffer.from(header, 'base64').toString()) as Sent
  const { payload } = sent
  const { voucher, channelConfig } = payload
  const forged: [object, number][] = [
    [{ ...payload, voucher: { ...voucher, maxClaimableAmount: '3000' } }, 402],
    [{ ...payload, voucher: { ...voucher, signature: `0x${'11'.repeat(65)}` } }, 402],
    [{ ...payload, channelConfig: { ...channelConfig, salt: `0x${'01'.repeat(32)}` } }, 402],
    [{ ...payload, channelConfig: { ...channelConfig, receiver: `0x${'01'.repeat(20)}` } }, 402],
    [{ ...payload, voucher: { ...voucher, maxClaimableAmount: '1e3' } }, 400],
    [{ ...payload, type: 'claim' }, 400],
  ]
  for (const [changed, status] of forged) {
    const text = Buffer.from(JSON.stringify({ ...sent, payload: changed })).toString('base64')
    expect([changed, (await sendTask(url, 'forged', paying(text))).status]).toEqual([changed, status])
  }
  const { accepted } = sent as { accepted: Record<string, unknown> & { extra: object } }
  const others = [
    { amount: '1' },
    { payTo: `0x${'01'.repeat(20)}` },
    { extra: { ...accepted.extra, withdrawDelay: 1 } },
  ]
  for (const change of others) {
    const text = Buffer.from(JSON.stringify({ ...sent, accepted: { ...accepted, ...change } })).toString('base64')
    const answer = await sendTask(url, 'forged', paying(text))
    expect([answer.status, errorIn(answer).error]).toEqual([
      402,
      expect.stringMatching(/^No matching payment requirem/),
    ])
  }
  expect((await sendTask(`${url}/stream`, 'forged', paying(header))).status).toBe(402)
  expect(runsOf('forged')).toBe(0)
  expect((await sendTask(url, 'not forged', paying(header))).status).toBe(200)
})

test('a metered agent costs what it has used, and the next voucher goes on from there', async () => {
  const pricing = { per_call: 300n, max: 5_000n }
  const definition = { name: 'metered', description: 'Says it again', price: 10_000n, pricing }
  const run = (task: string) => task
  const { id } = await seller.node.registerAgent(definition, { persist: false, run })
  const at = `${seller.publicUrl}/x402/${id}`
  expect(onChannel(errorIn(await send(at)))).toMatchObject({ amount: '5000' })
  const buyer = await startBuyer()
  for (const total of ['300', '600', '900']) {
    const { status, settled } = await buyer.buy(`up to ${total}`, at)
    expect([status, settled?.extra]).toMatchObject([
      200,
      { chargedAmount: '300', channelState: { chargedCumulativeAmount: total } },
    ])
  }
  // The last voucher was for 5,600. Who asks with it gets no run, and is not shown it. A cheaper agent takes a lower one.
  const unspent = errorIn(await sendTask(at, 'stolen', paying(buyer.sent.at(-1)!)))
  expect(onChannel(unspent).extra).not.toHaveProperty('voucherState')
  const { status, settled } = await buyer.buy('cheaper', url)
  expect([status, settled?.extra?.channelState]).toMatchObject([200, { chargedCumulativeAmount: '1900' }])
})

test('the header stays small with channels, also when it corrects', async () => {
  const tags = Array.from({ length: 16 }, (_, at) => `tag-${at}-${'x'.repeat(24)}`)
  const texts = { name: '長'.repeat(80), description: '“長い説明”\n'.repeat(300), tags }
  const run = (task: string) => task
  const { id } = await seller.node.registerAgent({ ...texts, price: PRICE }, { persist: false, run })
  const at = `${seller.publicUrl}/x402/${id}`
  const buyer = await startBuyer()
  await buyer.buy('small', at)
  const corrected = await sendTask(at, 'other', paying(buyer.sent.at(-1)!))
  expect(errorIn(corrected).error).toBe(MISMATCH)
  for (const { headers } of [await send(at), corrected]) {
    expect(headers.get('payment-required')!.length).toBeLessThan(4_096)
  }
})

test('a client whose channel was refunded elsewhere is corrected, and fills it up', async () => {
  const buyer = await startBuyer()
  await buyer.buy('one')
  const other = await startBuyer(buyer.keys)
  await other.client.refund(url)
  const { status, settled } = await buyer.buy('two')
  expect([status, settled?.extra?.channelState]).toMatchObject([200, { chargedCumulativeAmount: '2000' }])
})

test('a refund gives back what was not charged, and a channel goes on after a new deposit', async () => {
  const buyer = await startBuyer()
  const before = await buyer.balance()
  await buyer.buy('one')
  await buyer.buy('two')
  const settled = await buyer.client.refund(url)
  expect(settled).toMatchObject({ success: true, transaction: expect.stringMatching(/^0x/), amount: '98000' })
  expect(await buyer.balance()).toBe(before - 2n * PRICE)
  const { status } = await buyer.buy('three')
  expect(status).toBe(200)
})

test('a seller with a new ledger goes on from what it has claimed on the chain', async () => {
  const walletKey = generatePrivateKey()
  const options = { devnet, walletKey, public: { port: 0 }, seller: { channels: 'auto' as const } }
  const definition = { name: 'forgetful', description: 'Says it again', price: PRICE }
  const run = (task: string) => task
  const first = await startTestNode(options)
  const { id } = await first.node.registerAgent(definition, { persist: false, run })
  const buyer = await startBuyer()
  await buyer.buy('one', `${first.publicUrl}/x402/${id}`)
  await buyer.buy('two', `${first.publicUrl}/x402/${id}`)
  await first.stop()
  const second = await startTestNode(options)
  try {
    const again = await second.node.registerAgent(definition, { persist: false, run })
    const { status, settled } = await buyer.buy('three', `${second.publicUrl}/x402/${again.id}`)
    expect([status, settled?.extra?.channelState]).toMatchObject([200, { chargedCumulativeAmount: '3000' }])
  } finally {
    await second.stop()
  }
})

test('a restart keeps what was charged; a stop claims it all', async () => {
  const buyer = await startBuyer()
  await buyer.buy('before the stop')
  const header = buyer.sent.at(-1)!
  await seller.stop()
  const earned = runs.filter((run) => !run.startsWith('fail')).length
  expect(earned).toBeGreaterThan(20)
  const expected = PRICE * BigInt(earned) + 2n * PRICE
  await until(async () => (await devnet.chain.balanceOf(devnet.wallets.seller.address)) >= expected)
  seller = await startTestNode({
    ...{ devnet, walletKey: devnet.wallets.seller.privateKey, dataDir: join(home, 'seller') },
    ...{ public: { port: 0 }, seller: { channels: 'auto' } },
  })
  const id = /\/x402\/(.*)$/.exec(url)![1]!
  url = await sell('echo', PRICE)
  expect(url.endsWith(id)).toBe(true)
  expect((await sendTask(url, 'before the stop', paying(header))).json).toEqual({ result: 'before the stop' })
  expect(runsOf('before the stop')).toBe(1)
  const { settled } = await buyer.buy('after the stop', url)
  expect(settled?.extra?.channelState).toMatchObject({ chargedCumulativeAmount: '2000' })
})

test('T42 a claim shows no voucher of a run that failed: who has it can buy a run with the money of its payer', async () => {
  const buyer = await startBuyer()
  for (let call = 0; call < 12; call++) await buyer.buy(`paid ${call}`)
  expect((await buyer.buy('fail')).status).toBe(502)
  const [spent, unspent] = buyer.sent.slice(-2) as [string, string]
  await seller.stop()
  seller = await startTestNode({
    ...{ devnet, walletKey: devnet.wallets.seller.privateKey, dataDir: join(home, 'seller') },
    ...{ public: { port: 0 }, seller: { channels: 'auto' } },
  })
  url = await sell('echo', PRICE)
  const shown = JSON.stringify(await allTransactions())
  expect(shown).not.toContain(signatureIn(unspent))
  expect(shown).toContain(signatureIn(spent))
  const { settled } = await buyer.buy('goes on', url)
  expect(settled?.extra?.channelState).toMatchObject({ totalClaimed: '12000', chargedCumulativeAmount: '13000' })
})

/** The signature of the voucher in a header, as a transaction has it. */
function signatureIn(header: string): string {
  const { payload } = JSON.parse(Buffer.from(header, 'base64').toString('utf8')) as {
    payload: { voucher: { signature: string } }
  }
  return payload.voucher.signature.slice(2).toLowerCase()
}

async function allTransactions(): Promise<unknown[]> {
  const asked = async (method: string, params: unknown[]) => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
    const answer = await fetch(devnet.rpcUrl, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
    return ((await answer.json()) as { result: unknown }).result
  }
  const newest = Number(await asked('eth_blockNumber', []))
  const blocks = Array.from({ length: newest + 1 }, (_, at) =>
    asked('eth_getBlockByNumber', [`0x${at.toString(16)}`, true]),
  )
  return Promise.all(blocks)
}

test('T42 who has read an old voucher on the chain keeps its payer out of nothing', async () => {
  const buyer = await startBuyer()
  await buyer.buy('claimed 1')
  await buyer.buy('claimed 2')
  const claimed = buyer.sent.at(-1)!
  await seller.stop()
  seller = await startTestNode({
    ...{ devnet, walletKey: devnet.wallets.seller.privateKey, dataDir: join(home, 'seller') },
    ...{ public: { port: 0 }, seller: { channels: 'auto' } },
  })
  url = await sell('echo', PRICE)
  // It must not close the channel either.
  const payment = JSON.parse(Buffer.from(claimed, 'base64').toString('utf8')) as { payload: object }
  const refund = { ...payment, payload: { ...payment.payload, type: 'refund' } }
  const asked = await send(url, {
    method: 'GET',
    headers: paying(Buffer.from(JSON.stringify(refund)).toString('base64')),
  })
  expect(asked.status).toBe(402)
  expect(errorIn(asked).error).toMatch(/the chain shows this voucher to anybody/)
  const more = await buyer.buy('not claimed', url)
  expect(more.settled?.extra?.channelState).toMatchObject({ totalClaimed: '2000', chargedCumulativeAmount: '3000' })
  const agent = new Agent({ keepAlive: true, localAddress: '127.0.0.9' })
  const headers = { 'content-type': 'application/json', ...paying(claimed) }
  const statuses: number[] = []
  let isOver = false
  const replay = async () => {
    while (!isOver) {
      const sent = request(url, { method: 'POST', agent, headers }).end(JSON.stringify({ task: randomUUID() }))
      const [answer] = (await once(sent, 'response')) as [IncomingMessage]
      statuses.push(answer.statusCode!)
      await answer.toArray()
    }
  }
  const flood = Promise.all(Array.from({ length: 20 }, replay))
  await until(() => statuses.length > 400)
  const honest: number[] = []
  for (let call = 0; call < 20; call++) honest.push((await buyer.buy(`honest ${call}`, url)).status)
  isOver = true
  await flood
  agent.destroy()
  expect(new Set(honest)).toEqual(new Set([200]))
  expect(statuses).not.toContain(200)
  // The last voucher is known to its payer alone.
  const before = await buyer.balance()
  await buyer.client.refund(url)
  expect((await buyer.balance()) - before).toBe(100_000n - 23n * PRICE)
})
