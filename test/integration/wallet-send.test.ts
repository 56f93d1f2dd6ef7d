import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type DevChain, NETWORK, startChain } from '../../devnet/chain.ts'
import { addresses } from '../../devnet/contracts.ts'
import { type Chain, createChain } from '../../src/chain/chain.ts'
import { encodeRegister } from '../../src/chain/erc8004.ts'
import { encodeTransfer } from '../../src/chain/usdc.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { Sender } from '../../src/payments/sender.ts'
import { createTransfers } from '../../src/payments/transfers.ts'
import { createWallet } from '../../src/payments/wallet.ts'
import { OPERATOR } from '../../src/schema/caller.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import type { SendTransfer } from '../../src/schema/transfer.ts'
import { createLeftTransactions } from '../../src/selling/left-transactions.ts'
import { openDatabase } from '../../src/store/database.ts'
import { heldByAuthorizations } from '../../src/store/held.ts'
import { createPayments } from '../../src/store/payments.ts'
import { createPurchases } from '../../src/store/purchases.ts'
import { createTransactions } from '../../src/store/transactions.ts'
import { agentId, claim, exchangeOf, randomHex, requirements, signed, usdc } from '../support/payments.ts'
import { until } from '../support/until.ts'

let devChain: DevChain
let chain: Chain
beforeAll(async () => {
  devChain = await startChain()
  chain = createChain(
    { network: NETWORK, asset: addresses.usdc, rpcUrl: devChain.rpcUrl, timeoutMs: 30_000 },
    { logger: silentLogger },
  )
})
afterAll(() => devChain.stop())
afterEach(() => devChain.setAutomine(true))

/** On the network of the test unless told otherwise. */
type Sent = Omit<SendTransfer, 'network'> & Partial<SendTransfer>

/** A node's wallet with 10 USDC and ether. What it sends can be lost on the way. */
class Purse {
  readonly wallet = createWallet(generatePrivateKey(), usdc)
  readonly database = openDatabase({ path: ':memory:' })
  readonly sent: Hex[] = []
  intercept: ((method: string) => unknown) | undefined
  /** What the RPC answers instead. */
  answer: ((method: string) => unknown) | undefined
  sender = this.started()

  /** As after a start: only what is on disk is known. */
  started(waitMs = 20_000): Sender {
    const request: Chain['request'] = async (method, params, signal) => {
      if (method === 'eth_sendRawTransaction') this.sent.push(params[0] as Hex)
      await this.intercept?.(method)
      return this.answer?.(method) ?? chain.request(method, params, signal)
    }
    const transactions = createTransactions(this.database)
    this.sender = new Sender({
      chain: { network: NETWORK, request },
      ...{ wallet: this.wallet, transactions, clock: systemClock, tokenIn: () => undefined, waitMs, pollMs: 20 },
    })
    return this.sender
  }

  send(transfer: Sent, idempotencyKey?: string) {
    const { wallet, database } = this
    const transfers = createTransfers({
      ...{ wallet, logger: silentLogger },
      lane: async () => ({ chain, sender: this.sender }),
      held: async () => heldByAuthorizations(database, NETWORK),
    })
    const request = { caller: OPERATOR, idempotencyKey, signal: AbortSignal.timeout(20_000) }
    return transfers.send({ network: NETWORK, ...transfer }, request)
  }

  /** Signs for a purchase that is under way. */
  async hold(amount: bigint): Promise<void> {
    const now = systemClock.now()
    const asked = requirements({ amount })
    const { paymentId, envelope } = signed(now, { requirements: asked })
    const order = {
      ...{ id: paymentId, agentId, sellerId: 'seller', price: amount, status: 'executing' as const, task: 'task' },
      ...{ output: undefined, error: undefined, correlationId: paymentId, createdAt: now, updatedAt: now },
    }
    const validBeforeSeconds = Number(envelope.payload!.authorization.validBefore)
    await createPurchases(this.database).reserve(
      order,
      {
        paymentId,
        orderId: order.id,
        agentId,
        ...{ sellerId: 'seller', requirements: asked, envelope, amount, validBeforeSeconds },
      },
      { day: '2026-01-01', limits: () => ({}) },
    )
  }

  nonce = () => devChain.client.getTransactionCount({ address: this.wallet.address })
}

const etherOf = (address: Hex) => devChain.client.getBalance({ address })
const isPending = async (hash: Hex | undefined) =>
  hash !== undefined && (await chain.request('eth_getTransactionByHash', [hash])) !== null
let purse: Purse
let to: Hex
beforeEach(async () => {
  purse = new Purse()
  to = privateKeyToAddress(generatePrivateKey())
  await Promise.all([devChain.fundGas(purse.wallet.address), devChain.mint(purse.wallet.address, 10_000_000n)])
})

describe('stoa wallet send', () => {
  test('moves USDC, and says what went where', async () => {
    const sent = await purse.send({ to, amount: '1.5' })
    const { address: from } = purse.wallet
    const moved = { asset: 'USDC', amount: '1.5', amount_atomic: '1500000', from, to }
    expect(sent).toMatchObject({ ...moved, network: NETWORK, network_kind: 'test' })
    expect([await chain.usdcBalance(to), await chain.usdcBalance(from)]).toEqual([1_500_000n, 8_500_000n])
  })

  test('moves ETH', async () => {
    await purse.send({ to, amount: '0.001', asset: 'ETH' })
    expect(await etherOf(to)).toBe(10n ** 15n)
  })

  test('keeps what is signed for and not charged yet', async () => {
    await purse.hold(9_000_000n)
    const refused = purse.send({ to, amount: '1.000001' })
    await expect(refused).rejects.toMatchObject({
      code: 'INSUFFICIENT_FUNDS',
      message: expect.stringMatching(/holds 10 USDC, of which 9 USDC are signed for/),
    })
    await purse.send({ to, amount: '1' })
    expect([await purse.nonce(), await chain.usdcBalance(to)]).toEqual([1, 1_000_000n])
  })

  test('two at once do not take what is signed for', async () => {
    await purse.hold(4_000_000n)
    const outcomes = await Promise.allSettled([purse.send({ to, amount: '4' }), purse.send({ to, amount: '5' })])
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected'])
    expect(await chain.usdcBalance(to)).toBe(4_000_000n)
  })

  test.each<[string, Partial<SendTransfer>, string]>([
    ['to a misspelled account', { to: '0x209693Bc6afc0C5328bA36FaF03C514EF312287c' }, 'INVALID_REQUEST'],
    ['to nobody', { to: `0x${'00'.repeat(20)}` }, 'INVALID_REQUEST'],
    ['to the contract of USDC', { to: addresses.usdc }, 'INVALID_REQUEST'],
    ['nothing', { amount: '0' }, 'INVALID_REQUEST'],
    ['a seventh decimal', { amount: '0.0000001' }, 'INVALID_REQUEST'],
    ['more than is there', { amount: '11' }, 'INSUFFICIENT_FUNDS'],
    ['more ETH than is there', { amount: '1000000', asset: 'ETH' }, 'INSUFFICIENT_FUNDS'],
    ['on the other network', { network: 'eip155:8453' }, 'NETWORK_MISMATCH'],
  ])('sends nothing when asked for %s', async (_what, changes, code) => {
    await expect(purse.send({ to, amount: '1', ...changes })).rejects.toMatchObject({ code })
    expect([purse.sent, await purse.nonce()]).toEqual([[], 0])
  })

  test('without ETH it says so', async () => {
    await devChain.fundGas(purse.wallet.address, 0n)
    await expect(purse.send({ to, amount: '1' })).rejects.toMatchObject({ code: 'WALLET_NO_GAS' })
  })
})

describe('D38: a transfer with a key', () => {
  test('is sent once, however often it is asked for', async () => {
    const [first, second] = await Promise.all([1, 2].map(() => purse.send({ to, amount: '6' }, 'key')))
    const third = await purse.send({ to, amount: '6' }, 'key')
    expect(new Set([first!.tx_hash, second!.tx_hash, third.tx_hash]).size).toBe(1)
    expect([await purse.nonce(), await chain.usdcBalance(to)]).toEqual([1, 6_000_000n])
    await expect(purse.send({ to, amount: '1' }, 'key')).rejects.toMatchObject({ code: 'IDEMPOTENCY_CONFLICT' })
    await purse.send({ to, amount: '1' }, 'another')
    expect(await purse.nonce()).toBe(2)
  })

  test.each(['eth_sendRawTransaction', 'eth_getTransactionReceipt'])(
    'whose node died at %s is sent once after its start',
    async (moment) => {
      let deaths = 0
      purse.intercept = (method) => {
        const isMoment = method === moment && (moment === 'eth_sendRawTransaction' || purse.sent.length > 0)
        if (isMoment && deaths++ === 0) throw new Error('killed')
      }
      await expect(purse.send({ to, amount: '2' }, 'key')).rejects.toThrow('killed')
      purse.started()
      await purse.send({ to, amount: '2' }, 'key')
      expect([await purse.nonce(), await chain.usdcBalance(to)]).toEqual([1, 2_000_000n])
    },
  )
})

describe('what an ended process has stored, and never sent', () => {
  /** A refund that was signed and stored. Its process was killed before it was sent. */
  async function stored(purpose: string): Promise<void> {
    purse.intercept = (method) => {
      if (method === 'eth_sendRawTransaction') throw new Error('killed')
    }
    const call = { purpose, to: addresses.usdc, data: encodeTransfer(to, 3_000_000n), key: `${purpose} 0` }
    await expect(purse.sender.send(() => call, AbortSignal.timeout(20_000))).rejects.toThrow('killed')
    purse.intercept = undefined
  }

  /** The next process, which nobody asks for anything. */
  function nextProcess() {
    const { wallet, database } = purse
    const sender = purse.started()
    const left = createLeftTransactions({
      ...{ wallet, clock: systemClock, logger: silentLogger, firstMs: 0 },
      transactions: createTransactions(database),
      payments: createPayments(database),
      sender: async () => sender,
    })
    onTestFinished(() => left.stop())
    return left
  }

  async function settledPayment() {
    const now = systemClock.now()
    const payment = claim(now)
    const payments = createPayments(purse.database)
    await payments.claim(payment, now)
    await payments.deliver({ id: payment.id, state: 'owed' }, exchangeOf(payment, now), now)
    await payments.save({ id: payment.id, state: 'settled', txHash: randomHex() }, now)
    return { id: payment.id, refundTx: async () => (await payments.get(payment.id))?.refundTx }
  }

  test('is sent by the next process, once, and the payment of a refund is paid back in the books', async () => {
    const { id, refundTx } = await settledPayment()
    await stored(`refund ${id}`)
    const [{ hash } = {}] = await purse.sender.open()
    await nextProcess().start()
    await until(refundTx)
    expect([await refundTx(), await purse.nonce(), await chain.usdcBalance(to)]).toEqual([hash, 1, 3_000_000n])
    expect(await purse.sender.open()).toEqual([])
  })

  test('is sent after a takeover too', async () => {
    const left = nextProcess()
    await left.start()
    await stored('send 3')
    await until(async () => {
      left.wake()
      return (await chain.usdcBalance(to)) > 0n
    })
    expect([await purse.nonce(), await chain.usdcBalance(to)]).toEqual([1, 3_000_000n])
  })

  test('a refund that was mined, and never noted, is noted', async () => {
    const { id, refundTx } = await settledPayment()
    const call = {
      purpose: `refund ${id}`,
      to: addresses.usdc,
      data: encodeTransfer(to, 3_000_000n),
      key: `refund ${id} 0`,
    }
    const { hash } = await purse.sender.send(() => call, AbortSignal.timeout(20_000))
    expect(await refundTx()).toBeUndefined()
    await nextProcess().start()
    await until(refundTx)
    expect([await refundTx(), await purse.nonce()]).toEqual([hash, 1])
  })
})

describe('while a transfer waits', () => {
  async function waiting(transfer: Sent): Promise<Hex> {
    await devChain.setAutomine(false)
    purse.started(100)
    await expect(purse.send(transfer, 'first')).rejects.toMatchObject({ code: 'TRANSACTION_PENDING' })
    const [{ hash, purpose } = {}] = await purse.sender.open()
    expect(purpose).toBe(`send ${transfer.amount} ${transfer.asset} to ${to}`)
    return hash!
  }

  test('a like one is refused, with and without a key of its own', async () => {
    const hash = await waiting({ to, amount: '1', asset: 'USDC' })
    for (const key of [undefined, 'second']) {
      await expect(purse.send({ to, amount: '1' }, key)).rejects.toMatchObject({
        code: 'TRANSACTION_PENDING',
        message: expect.stringContaining(`${hash} that does the same`),
      })
    }
    expect(await purse.sender.open()).toHaveLength(1)
    await devChain.mine()
    await purse.send({ to, amount: '1' }, 'first')
    expect(await chain.usdcBalance(to)).toBe(1_000_000n)
  })

  test('a replacement moves the same ETH, once', async () => {
    const hash = await waiting({ to, amount: '0.002', asset: 'ETH' })
    const replaced = purse.started().replace(hash, AbortSignal.timeout(20_000))
    await until(async () => isPending((await purse.sender.open())[1]?.hash))
    await devChain.mine()
    const { hash: mined } = await replaced
    expect(mined).not.toBe(hash)
    expect([await purse.nonce(), await etherOf(to)]).toEqual([1, 2n * 10n ** 15n])
    const again = await purse.send({ to, amount: '0.002', asset: 'ETH' }, 'first')
    expect([again.tx_hash, await purse.nonce()]).toEqual([mined, 1])
  })

  test('after a reorganization the first one may be mined after all: it moves the same USDC, once', async () => {
    const before = await devChain.client.snapshot()
    const hash = await waiting({ to, amount: '1', asset: 'USDC' })
    const [stuck] = await purse.sender.open()
    const replaced = purse.started().replace(hash, AbortSignal.timeout(20_000))
    await until(async () => isPending((await purse.sender.open())[1]?.hash))
    await devChain.mine()
    expect((await replaced).hash).not.toBe(hash)
    await devChain.client.revert({ id: before })
    await devChain.setAutomine(true)
    purse.intercept = async (method) => {
      if (method === 'eth_sendRawTransaction') await chain.request(method, [stuck!.raw]).catch(() => {})
    }
    await purse.send({ to, amount: '2' })
    expect((await purse.send({ to, amount: '1' }, 'first')).tx_hash).toBe(hash)
    expect([await purse.nonce(), await chain.usdcBalance(to)]).toEqual([2, 3_000_000n])
  })

  test('one that was abandoned has moved nothing, and its key sends nothing more', async () => {
    const hash = await waiting({ to, amount: '0.002', asset: 'ETH' })
    const abandoned = purse.started().abandon(hash, AbortSignal.timeout(20_000))
    await until(async () => isPending((await purse.sender.open())[1]?.hash))
    await devChain.mine()
    await abandoned
    await devChain.setAutomine(true)
    const again = purse.send({ to, amount: '0.002', asset: 'ETH' }, 'first')
    await expect(again).rejects.toMatchObject({ code: 'TRANSACTION_LOST' })
    expect(await etherOf(to)).toBe(0n)
  })

  test('another call of the account waits its turn: one lane for all', async () => {
    await devChain.setAutomine(false)
    const call = { purpose: 'register x', to: addresses.identityRegistry, data: encodeRegister('data:,') }
    const first = purse.sender.send(() => call, AbortSignal.timeout(20_000))
    const second = purse.send({ to, amount: '1' })
    await until(async () => isPending((await purse.sender.open())[0]?.hash))
    await devChain.mine()
    await first
    await until(async () => isPending((await purse.sender.open())[0]?.hash))
    await devChain.mine()
    await second
    expect([await purse.nonce(), await chain.usdcBalance(to)]).toEqual([2, 1_000_000n])
  })
})

test('what a reorganization has taken back is sent again, unchanged, before anything else', async () => {
  const before = await devChain.client.snapshot()
  const sent = [await purse.send({ to, amount: '1' }), await purse.send({ to, amount: '2' })]
  await devChain.client.revert({ id: before })
  expect([await purse.nonce(), await chain.usdcBalance(to)]).toEqual([0, 0n])
  purse.sent.length = 0
  await purse.send({ to, amount: '4' })
  expect([await purse.nonce(), await chain.usdcBalance(to)]).toEqual([3, 7_000_000n])
  for (const { tx_hash: hash } of sent) {
    expect(await chain.request('eth_getTransactionReceipt', [hash])).toMatchObject({ status: '0x1' })
  }
  expect([purse.sent.length, (await purse.sender.open()).length]).toEqual([3, 0])
})

test('one that failed and was taken back does not block the account, and does not happen after all', async () => {
  const before = await devChain.client.snapshot()
  await purse.send({ to, amount: '1' })
  await devChain.setAutomine(false)
  purse.sent.length = 0
  const failing = purse.send({ to, amount: '5' }).catch((error: unknown) => error)
  await until(async () => purse.sent.length > 0)
  const code = await devChain.client.getCode({ address: addresses.usdc })
  await devChain.client.setCode({ address: addresses.usdc, bytecode: '0x60006000fd' })
  await devChain.mine()
  expect(await failing).toMatchObject({ code: 'TRANSACTION_FAILED' })
  await devChain.client.setCode({ address: addresses.usdc, bytecode: code! })
  await devChain.setAutomine(true)
  await purse.send({ to, amount: '2' })
  await devChain.client.revert({ id: before })
  expect([await purse.nonce(), await chain.usdcBalance(to)]).toEqual([0, 0n])
  await purse.send({ to, amount: '3' })
  expect([await purse.nonce(), await chain.usdcBalance(to)]).toEqual([4, 6_000_000n])
  expect(await purse.sender.open()).toEqual([])
})

test('an RPC that counts too few transactions and shows their receipts has lost none: nothing is sent', async () => {
  await purse.send({ to, amount: '1' })
  purse.sent.length = 0
  purse.answer = (method) => (method === 'eth_getTransactionCount' ? '0x0' : undefined)
  await expect(purse.send({ to, amount: '2' })).rejects.toMatchObject({ code: 'CHAIN_UNAVAILABLE' })
  expect(purse.sent).toEqual([])
})

describe('two processes of one account', () => {
  const call = (amount: bigint, key?: string) => {
    return { purpose: `send ${amount}`, to: addresses.usdc, data: encodeTransfer(to, amount), key }
  }
  /** Lets both look at the account before either has stored anything. */
  function atOnce(): [Sender, Sender] {
    const [first, second] = [purse.started(), purse.started()]
    const gate = Promise.withResolvers<void>()
    let asked = 0
    purse.intercept = async (method) => {
      if (method !== 'eth_estimateGas') return
      if (++asked === 2) gate.resolve()
      await gate.promise
    }
    return [first, second]
  }

  test('use no account nonce twice: each of two transactions happens', async () => {
    const [first, second] = atOnce()
    const sent = await Promise.all([
      first.send(() => call(1n), AbortSignal.timeout(20_000)),
      second.send(() => call(2n), AbortSignal.timeout(20_000)),
    ])
    expect(new Set(sent.map(({ hash }) => hash)).size).toBe(2)
    expect([await purse.nonce(), await chain.usdcBalance(to)]).toEqual([2, 3n])
  })

  test('send the transaction of one key once', async () => {
    const [first, second] = atOnce()
    const sent = await Promise.all(
      [first, second].map((one) => one.send(() => call(5n, 'key'), AbortSignal.timeout(20_000))),
    )
    expect(sent[0]!.hash).toBe(sent[1]!.hash)
    expect([await purse.nonce(), await chain.usdcBalance(to)]).toEqual([1, 5n])
  })
})
