import { decodeFunctionResult, encodeFunctionData, type Hex, parseAbi, parseSignature } from 'viem'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  highS,
  type PaymentSpec,
  randomHash,
  secondsFromNow,
  signPayment,
  transferCalldata,
} from '../test/support/signed-payment.ts'
import { type DevChain, startChain, usdcAbi } from './chain.ts'
import { addresses, USDC_DOMAIN_SEPARATOR } from './contracts.ts'

const usdc = { address: addresses.usdc, abi: usdcAbi } as const

let chain: DevChain
const payerKey = generatePrivateKey()
const payer = privateKeyToAddress(payerKey)
const payTo = privateKeyToAddress(generatePrivateKey())

beforeAll(async () => {
  chain = await startChain()
  await chain.mint(payer, 1_000_000n)
})
afterAll(() => chain.stop())

/** Calldata of `transferWithAuthorization` with the signature in one piece. */
async function transferCall(spec: Partial<PaymentSpec> = {}): Promise<Hex> {
  return transferCalldata(await signPayment({ payerKey, payTo, ...spec }))
}

/** The same call with the signature in three parts. */
async function transferCallVrs(spec: Partial<PaymentSpec> & { v?: number } = {}): Promise<Hex> {
  const { authorization: a, signature } = await signPayment({ payerKey, payTo, ...spec })
  const { r, s, v } = parseSignature(signature)
  const window = [BigInt(a.validAfter), BigInt(a.validBefore), a.nonce as Hex] as const
  const args = [a.from as Hex, a.to as Hex, BigInt(a.value), ...window, spec.v ?? Number(v), r, s] as const
  return encodeFunctionData({ abi: usdcAbi, functionName: 'transferWithAuthorization', args })
}

function attempt(data: Hex): Promise<unknown> {
  return chain.client.call({ to: addresses.usdc, data })
}

function withV(v: string): (signature: Hex) => Hex {
  return (signature) => `${signature.slice(0, -2)}${v}` as Hex
}

describe('the devnet USDC', () => {
  it("has Base Sepolia's domain separator, at Base Sepolia's address", async () => {
    expect(await chain.client.readContract({ ...usdc, functionName: 'DOMAIN_SEPARATOR' })).toBe(USDC_DOMAIN_SEPARATOR)
  })

  it('is called USDC, version 2, with 6 decimals', async () => {
    const read = (functionName: 'name' | 'symbol' | 'version' | 'decimals') =>
      chain.client.readContract({ ...usdc, functionName })
    expect(await Promise.all([read('name'), read('symbol'), read('version'), read('decimals')])).toEqual([
      'USDC',
      'USDC',
      '2',
      6,
    ])
  })

  it('moves money by an authorization, once, and emits both events', async () => {
    const nonce = randomHash()
    const data = await transferCall({ nonce, amount: 1234n })
    const before = await chain.balanceOf(payTo)
    const hash = await chain.submit({ to: addresses.usdc, data })
    expect((await chain.balanceOf(payTo)) - before).toBe(1234n)
    expect(await chain.authorizationState(payer, nonce)).toBe(true)
    const { logs } = await chain.client.getTransactionReceipt({ hash })
    expect(logs.map((log) => log.topics[0])).toEqual([
      '0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5',
      '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef',
    ])
    await expect(attempt(data)).rejects.toThrow('FiatTokenV2: authorization is used or canceled')
  })

  it('also accepts a signature in three parts', async () => {
    await expect(attempt(await transferCallVrs())).resolves.toBeDefined()
  })

  it('accepts the signature check of a contract (EIP-1271), but not the plain signature of its owner', async () => {
    const wallet = privateKeyToAddress(generatePrivateKey())
    await chain.deploySmartWallet(payer, wallet)
    await chain.mint(wallet, 10_000n)
    const prefixed = (signature: Hex) => `0x00${signature.slice(2)}` as Hex
    await expect(attempt(await transferCall({ from: wallet, alter: prefixed }))).resolves.toBeDefined()
    await expect(attempt(await transferCall({ from: wallet }))).rejects.toThrow('FiatTokenV2: invalid signature')
  })

  it('lets only the payee call receiveWithAuthorization', async () => {
    const { authorization: a, signature } = await signPayment({ payerKey, payTo })
    const window = [BigInt(a.validAfter), BigInt(a.validBefore), a.nonce as Hex] as const
    const data = encodeFunctionData({
      abi: usdcAbi,
      functionName: 'receiveWithAuthorization',
      args: [a.from as Hex, payTo, BigInt(a.value), ...window, signature],
    })
    await expect(attempt(data)).rejects.toThrow('FiatTokenV2: caller must be the payee')
  })

  const refusals: [string, string, Partial<PaymentSpec>][] = [
    ['a window not yet open', 'authorization is not yet valid', { validAfter: secondsFromNow(600) }],
    ['a window that is over', 'FiatTokenV2: authorization is expired', { validBefore: secondsFromNow(-5) }],
    ['more than the balance', 'ERC20: transfer amount exceeds balance', { amount: 10n ** 15n }],
    ['another signer', 'FiatTokenV2: invalid signature', { from: payTo }],
    ['another domain', 'FiatTokenV2: invalid signature', { domainName: 'USD Coin' }],
    ['a high s', "ECRecover: invalid signature 's' value", { alter: highS }],
    ['v of 0', "ECRecover: invalid signature 'v' value", { alter: withV('00') }],
    ['v of 1', "ECRecover: invalid signature 'v' value", { alter: withV('01') }],
    ['64 bytes', 'ECRecover: invalid signature length', { alter: (signature) => signature.slice(0, -2) as Hex }],
    [
      'the zero address',
      'ERC20: transfer to the zero address',
      { payTo: '0x0000000000000000000000000000000000000000' },
    ],
  ]
  it.each(refusals)('refuses %s with the error of USDC "%s"', async (_, words, spec) => {
    await expect(attempt(await transferCall(spec))).rejects.toThrow(words)
  })

  it('also refuses v of 0 and 1 in three parts', async () => {
    for (const v of [0, 1]) {
      await expect(attempt(await transferCallVrs({ v }))).rejects.toThrow("ECRecover: invalid signature 'v' value")
    }
  })

  it('checks window, nonce, signature and balance in this order', async () => {
    const nonce = randomHash()
    await chain.cancelAuthorization(payerKey, nonce)
    const broken = { nonce, from: payTo, amount: 10n ** 15n }
    const early = await transferCall({ ...broken, validAfter: secondsFromNow(600) })
    await expect(attempt(early)).rejects.toThrow('not yet valid')
    await expect(attempt(await transferCall({ ...broken, from: payer }))).rejects.toThrow('used or canceled')
    await expect(attempt(await transferCall({ ...broken, nonce: randomHash() }))).rejects.toThrow('invalid signature')
  })

  it('lets a payer cancel an unused authorization, with an event', async () => {
    const nonce = randomHash()
    const hash = await chain.cancelAuthorization(payerKey, nonce)
    const { logs } = await chain.client.getTransactionReceipt({ hash })
    expect(logs.map((log) => log.topics[0])).toEqual([
      '0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81',
    ])
    expect(await chain.authorizationState(payer, nonce)).toBe(true)
    await expect(attempt(await transferCall({ nonce }))).rejects.toThrow('authorization is used or canceled')
    const again = await chain.cancelAuthorization(payerKey, nonce)
    expect((await chain.client.getTransactionReceipt({ hash: again })).status).toBe('reverted')
  })
})

describe('the devnet Multicall3', () => {
  it('answers many reads in one call, including failures', async () => {
    const balance = { ...usdc, functionName: 'balanceOf', args: [payTo] } as const
    const missing = {
      ...usdc,
      abi: parseAbi(['function nothing() view returns (uint256)']),
      functionName: 'nothing',
    } as const
    const [first, second] = await chain.client.multicall({ contracts: [balance, missing] })
    expect(first.result).toBe(await chain.balanceOf(payTo))
    expect(second.status).toBe('failure')
  })

  it('fails as a whole when every call must succeed', async () => {
    const abi = parseAbi([
      'function tryAggregate(bool requireSuccess, (address target, bytes callData)[] calls) returns ((bool success, bytes returnData)[])',
    ])
    const call = (requireSuccess: boolean) =>
      encodeFunctionData({
        abi,
        functionName: 'tryAggregate',
        args: [requireSuccess, [{ target: addresses.usdc, callData: '0x12345678' }]],
      })
    await expect(chain.client.call({ to: addresses.multicall, data: call(true) })).rejects.toThrow('call failed')
    const { data } = await chain.client.call({ to: addresses.multicall, data: call(false) })
    const [result] = decodeFunctionResult({ abi, functionName: 'tryAggregate', data: data as Hex })
    expect(result?.success).toBe(false)
  })
})
