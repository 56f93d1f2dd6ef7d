import { encodeFunctionData, type Hex, parseAbi } from 'viem'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type DevChain, NETWORK, startChain, usdcAbi } from '../../devnet/chain.ts'
import { addresses } from '../../devnet/contracts.ts'
import { type Chain, createChain } from '../../src/chain/chain.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { randomHash, type SignedPayment, signPayment, transferCalldata } from '../support/signed-payment.ts'

const USDC = addresses.usdc

let devChain: DevChain
const payerKey = generatePrivateKey()
const payer = privateKeyToAddress(payerKey)
const payTo = privateKeyToAddress(generatePrivateKey())

beforeAll(async () => {
  devChain = await startChain()
  await devChain.mint(payer, 1_000_000_000n)
})
afterAll(() => devChain.stop())

function chainAt(rpcUrl: string): Chain {
  return createChain({ network: NETWORK, asset: USDC, rpcUrl, timeoutMs: 30_000 }, { logger: silentLogger })
}

const sign = (amount: bigint, nonce: Hex = randomHash(), to: Hex = payTo) =>
  signPayment({ payerKey, payTo: to, amount, nonce })

function settle(payment: SignedPayment): Promise<Hex> {
  return devChain.submit({ to: USDC, data: transferCalldata(payment) })
}

describe('createChain', () => {
  let chain: Chain
  beforeEach(() => {
    chain = chainAt(devChain.rpcUrl)
  })

  it('reads a balance of USDC', async () => {
    const address = privateKeyToAddress(generatePrivateKey())
    expect(await chain.usdcBalance(address)).toBe(0n)
    await devChain.mint(address, 123_456_789n)
    expect(await chain.usdcBalance(address)).toBe(123_456_789n)
    expect(await chain.usdcBalance(address.toLowerCase() as Hex)).toBe(123_456_789n)
  })

  it('tells the chain id and the time of the newest block', async () => {
    expect(await chain.chainId()).toBe(84532)
    await devChain.mine()
    expect(Math.abs((await chain.blockTimeMs()) - systemClock.now())).toBeLessThan(60_000)
  })

  it('says that an authorization is unused', async () => {
    expect(await chain.authorizationUse(USDC, payer, randomHash())).toEqual({ state: 'unused' })
  })

  it('says by which transaction an authorization was used, for whom and for how much', async () => {
    const payment = await sign(4_321n)
    const txHash = await settle(payment)
    expect(await chain.authorizationUse(USDC, payer, payment.nonce)).toEqual({
      state: 'used',
      txHash,
      transfer: { to: payTo.toLowerCase(), value: 4_321n },
    })
    expect(await chain.transferOf(txHash, payer, payment.nonce)).toEqual({ to: payTo.toLowerCase(), value: 4_321n })
  })

  it('shows that a payer spent the nonce on another transfer, to itself, before the seller settled (T6, T13)', async () => {
    const payment = await sign(5_000n)
    const elsewhere = await sign(1n, payment.nonce, payer)
    const txHash = await settle(elsewhere)
    const use = await chain.authorizationUse(USDC, payer, payment.nonce)
    expect(use).toEqual({ state: 'used', txHash, transfer: { to: payer.toLowerCase(), value: 1n } })
  })

  it('says that an authorization was canceled', async () => {
    const nonce = randomHash()
    const txHash = await devChain.cancelAuthorization(payerKey, nonce)
    expect(await chain.authorizationUse(USDC, payer, nonce)).toEqual({ state: 'canceled' })
    expect(await chain.transferOf(txHash, payer, nonce)).toBe(false)
  })

  it('keeps the authorizations of one transaction apart', async () => {
    const payments = await Promise.all([sign(11n), sign(22n, randomHash(), payer), sign(33n)])
    const abi = parseAbi([
      'function aggregate3((address target, bool allowFailure, bytes callData)[] calls) returns ((bool success, bytes returnData)[])',
    ])
    const calls = payments.map((payment) => ({
      target: USDC,
      allowFailure: false,
      callData: transferCalldata(payment),
    }))
    const data = encodeFunctionData({ abi, functionName: 'aggregate3', args: [calls] })
    const txHash = await devChain.submit({ to: addresses.multicall, data })
    const uses = await Promise.all(payments.map(({ nonce }) => chain.authorizationUse(USDC, payer, nonce)))
    expect(uses).toEqual([
      { state: 'used', txHash, transfer: { to: payTo.toLowerCase(), value: 11n } },
      { state: 'used', txHash, transfer: { to: payer.toLowerCase(), value: 22n } },
      { state: 'used', txHash, transfer: { to: payTo.toLowerCase(), value: 33n } },
    ])
  })

  it('tells a hash of another transfer from the one that paid (T13)', async () => {
    const payment = await sign(1n)
    const other = await sign(1n)
    const txHash = await settle(other)
    expect(await chain.transferOf(txHash, payer, payment.nonce)).toBe(false)
    expect(await chain.transferOf(await devChain.mint(payTo, 1n), payer, payment.nonce)).toBe(false)
    expect(await chain.transferOf(txHash, payTo, other.nonce)).toBe(false)
    expect(await chain.transferOf(txHash.toUpperCase().replace('0X', '0x') as Hex, payer, other.nonce)).toMatchObject({
      value: 1n,
    })
  })

  it('T26 takes for a refund what was mined after the settlement alone, not an older transfer of the same amount', async () => {
    const [bank] = await devChain.client.getAddresses()
    const value = 7_770n
    await devChain.mint(bank!, 2n * value)
    const payBack = () => {
      const data = encodeFunctionData({ abi: usdcAbi, functionName: 'transfer', args: [payer, value] })
      return devChain.submit({ to: USDC, data })
    }
    const older = await payBack()
    const after = await settle(await sign(value, randomHash(), bank!))
    const refund = await payBack()
    const wanted = { from: bank!, to: payer, value, after }
    const found = await Promise.all([older, after, refund].map((txHash) => chain.hasMoved(txHash, wanted)))
    expect(found).toEqual([false, false, true])
    expect(await chain.hasMoved(refund, { ...wanted, after: randomHash() })).toBe(false)
  })

  it('does not take a reverted transaction for a payment', async () => {
    const payment = await sign(10n ** 15n)
    const txHash = await settle(payment)
    expect(await chain.transferOf(txHash, payer, payment.nonce)).toBe(false)
    expect(await chain.authorizationUse(USDC, payer, payment.nonce)).toEqual({ state: 'unused' })
  })

  it('cannot say anything of a transaction that is unknown or not mined', async () => {
    expect(await chain.transferOf(randomHash(), payer, randomHash())).toBeUndefined()
    await devChain.setAutomine(false)
    try {
      const payment = await sign(1n)
      await devChain.fundGas(payer)
      const [bank] = await devChain.client.getAddresses()
      const request = { account: bank as Hex, to: USDC, data: transferCalldata(payment), gas: 500_000n }
      const txHash = await devChain.client.sendTransaction(request)
      expect(await chain.transferOf(txHash, payer, payment.nonce)).toBeUndefined()
      expect(await chain.authorizationUse(USDC, payer, payment.nonce)).toEqual({ state: 'unused' })
      await devChain.mine()
      expect(await chain.transferOf(txHash, payer, payment.nonce)).toMatchObject({ value: 1n })
    } finally {
      await devChain.setAutomine(true)
    }
  })

  it('finds a settlement many blocks back', async () => {
    const payment = await sign(7n)
    const txHash = await settle(payment)
    await devChain.mine(1_600)
    expect(await chain.authorizationUse(USDC, payer, payment.nonce)).toMatchObject({ state: 'used', txHash })
  })
})
