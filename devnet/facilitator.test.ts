import { type Hex, hexToBytes } from 'viem'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  highS,
  type PaymentSpec,
  postJson,
  randomHash,
  type SignedPayment,
  secondsFromNow,
  signPayment,
} from '../test/support/signed-payment.ts'
import { type Devnet, startDevnet } from './devnet.ts'
import { startFacilitator } from './facilitator.ts'

const NOBODY = privateKeyToAddress(generatePrivateKey())

let devnet: Devnet
beforeAll(async () => {
  devnet = await startDevnet({ confirmationTimeoutMs: 500 })
})
afterAll(() => devnet.stop())

const sign = (spec: Partial<PaymentSpec> = {}) =>
  signPayment({ payerKey: devnet.wallets.buyer.privateKey, payTo: devnet.wallets.seller.address, ...spec })
const verify = (payment: SignedPayment) => postJson(`${devnet.facilitatorUrl}/verify`, payment.body)
const settle = (payment: SignedPayment) => postJson(`${devnet.facilitatorUrl}/settle`, payment.body)

function flipBit(signature: Hex): Hex {
  const bytes = hexToBytes(signature)
  bytes[40] = (bytes[40] as number) ^ 1
  return `0x${Buffer.from(bytes).toString('hex')}`
}

const smallV = (signature: Hex) => `${signature.slice(0, -2)}0${Number.parseInt(signature.slice(-2), 16) - 27}` as Hex

describe('a valid payment', () => {
  it('is verified and settled, and the money moves once', async () => {
    const { seller, buyer } = devnet.wallets
    const before = [await devnet.chain.balanceOf(seller.address), await devnet.chain.balanceOf(buyer.address)] as const
    const payment = await sign({ amount: 12_345n })
    expect(await verify(payment)).toEqual({ status: 200, body: { isValid: true, payer: buyer.address } })
    const settled = await settle(payment)
    expect(settled.status).toBe(200)
    expect(settled.body).toMatchObject({ success: true, network: 'eip155:84532', payer: buyer.address })
    const receipt = await devnet.chain.client.getTransactionReceipt({ hash: settled.body.transaction as Hex })
    expect(receipt.status).toBe('success')
    expect(await devnet.chain.balanceOf(seller.address)).toBe(before[0] + 12_345n)
    expect(await devnet.chain.balanceOf(buyer.address)).toBe(before[1] - 12_345n)
  })

  it('settles for a contract that signs by EIP-1271', async () => {
    const wallet = privateKeyToAddress(generatePrivateKey())
    await devnet.chain.deploySmartWallet(devnet.wallets.buyer.address, wallet)
    await devnet.chain.mint(wallet, 10_000n)
    const payment = await sign({ from: wallet, alter: (signature) => `0x00${signature.slice(2)}` })
    expect((await verify(payment)).body).toMatchObject({ isValid: true })
    expect((await settle(payment)).body).toMatchObject({ success: true })
  })
})

/** What the reference facilitator says of the same payments with Circle's own token: /verify's reason, /settle's. */
const cases: [string, () => Promise<SignedPayment>, string, string][] = [
  [
    'a replay',
    async () => {
      const payment = await sign()
      await settle(payment)
      return payment
    },
    'invalid_exact_evm_nonce_already_used',
    'invalid_exact_evm_nonce_already_used',
  ],
  [
    'an authorization the payer has canceled',
    async () => {
      const payment = await sign()
      await devnet.chain.cancelAuthorization(devnet.wallets.buyer.privateKey, payment.nonce)
      return payment
    },
    'invalid_exact_evm_nonce_already_used',
    'invalid_exact_evm_nonce_already_used',
  ],
  ...same('another amount', { value: 9_999n }, 'invalid_exact_evm_payload_authorization_value_mismatch'),
  ...same('another payee', { to: NOBODY }, 'invalid_exact_evm_recipient_mismatch'),
  ...same(
    'what has expired',
    { validBefore: secondsFromNow(-10) },
    'invalid_exact_evm_payload_authorization_valid_before',
  ),
  ...same(
    'what is not yet valid',
    { validAfter: secondsFromNow(900) },
    'invalid_exact_evm_payload_authorization_valid_after',
  ),
  ...same('no funds', { payerKey: generatePrivateKey() }, 'invalid_exact_evm_insufficient_balance'),
  ...same('a changed signature', { alter: flipBit }, 'invalid_exact_evm_signature'),
  ...same('no extra', { extra: null }, 'invalid_exact_evm_missing_eip712_domain'),
  ...same('an asset without code', { asset: NOBODY }, 'asset_not_deployed_contract'),
  [
    "the other network's domain name (T14)",
    () => sign({ domainName: 'USD Coin' }),
    'invalid_exact_evm_token_name_mismatch',
    'invalid_exact_evm_signature',
  ],
  [
    'v of 0 or 1',
    () => sign({ alter: smallV }),
    'invalid_exact_evm_transaction_simulation_failed',
    'invalid_exact_evm_signature',
  ],
  [
    'a high s',
    () => sign({ alter: highS }),
    'invalid_exact_evm_transaction_simulation_failed',
    'invalid_exact_evm_signature',
  ],
]

function same(name: string, spec: Partial<PaymentSpec>, reason: string): [(typeof cases)[number]] {
  return [[name, () => sign(spec), reason, reason]]
}

describe('an invalid payment', () => {
  it.each(cases)(
    '%s is refused with the reason of the reference implementation and moves nothing',
    async (_, make, invalid, error) => {
      const payment = await make()
      const before = await devnet.chain.balanceOf(devnet.wallets.seller.address)
      const verified = await verify(payment)
      expect(verified).toMatchObject({ status: 200, body: { isValid: false, invalidReason: invalid } })
      const settled = await settle(payment)
      expect(settled).toMatchObject({ status: 200, body: { success: false, errorReason: error, transaction: '' } })
      expect(await devnet.chain.balanceOf(devnet.wallets.seller.address)).toBe(before)
    },
  )
})

describe('concurrent payments', () => {
  it('20 good and 20 replayed settlements at once: all good ones succeed, each pays once', async () => {
    const used = await Promise.all(Array.from({ length: 20 }, () => sign({ amount: 1n })))
    for (const payment of used) await settle(payment)
    const before = await devnet.chain.balanceOf(devnet.wallets.seller.address)
    const good = await Promise.all(Array.from({ length: 20 }, () => sign({ amount: 100n })))
    const mixed = good.flatMap((payment, index) => [settle(used[index] as SignedPayment), settle(payment)])
    const results = (await Promise.all(mixed)).map(({ body }) => body)
    const succeeded = results.filter((body) => body.success === true)
    expect(succeeded).toHaveLength(20)
    expect(new Set(succeeded.map((body) => body.transaction)).size).toBe(20)
    expect(results.filter((body) => body.errorReason === 'invalid_exact_evm_nonce_already_used')).toHaveLength(20)
    expect(await devnet.chain.balanceOf(devnet.wallets.seller.address)).toBe(before + 2_000n)
  })

  it('the same payment five times at once: one transfer, one answer for all', async () => {
    const payment = await sign({ amount: 777n })
    const before = await devnet.chain.balanceOf(devnet.wallets.seller.address)
    const results = await Promise.all(Array.from({ length: 5 }, () => settle(payment)))
    expect(new Set(results.map(({ body }) => body.transaction)).size).toBe(1)
    expect(results.every(({ body }) => body.success === true)).toBe(true)
    expect(await devnet.chain.balanceOf(devnet.wallets.seller.address)).toBe(before + 777n)
  })

  it('two payments under one nonce at once: one succeeds, the other does not share its answer', async () => {
    const nonce = randomHash()
    const payments = await Promise.all([sign({ nonce, amount: 10n }), sign({ nonce, amount: 20n })])
    const results = (await Promise.all(payments.map(settle))).map(({ body }) => body.success)
    expect(results.sort()).toEqual([false, true])
  })

  it('continues when somebody else uses the nonces of its gas account', async () => {
    const gasKey = generatePrivateKey()
    const [first, second] = await Promise.all([1, 2].map(() => startFacilitator({ rpcUrl: devnet.rpcUrl, gasKey })))
    try {
      await devnet.chain.fundGas(privateKeyToAddress(gasKey))
      for (const facilitator of [first, second, first, second]) {
        const payment = await sign({ amount: 1n })
        expect((await postJson(`${facilitator?.url}/settle`, payment.body)).body).toMatchObject({ success: true })
      }
    } finally {
      await Promise.all([first?.stop(), second?.stop()])
    }
  })
})

describe('a chain that mines no blocks', () => {
  it('answers settlement_pending with the hash; the retry succeeds with the same hash', async () => {
    await devnet.chain.setAutomine(false)
    try {
      const payment = await sign({ amount: 5n })
      const pending = await settle(payment)
      expect(pending.body).toMatchObject({ success: false, errorReason: 'settlement_pending' })
      const transaction = pending.body.transaction as Hex
      expect(transaction).toMatch(/^0x[0-9a-f]{64}$/)
      expect((await settle(payment)).body).toMatchObject({ errorReason: 'settlement_pending', transaction })
      await devnet.chain.mine()
      expect((await settle(payment)).body).toMatchObject({ success: true, transaction })
      expect((await settle(payment)).body).toMatchObject({
        success: false,
        errorReason: 'invalid_exact_evm_nonce_already_used',
        transaction: '',
      })
    } finally {
      await devnet.chain.setAutomine(true)
    }
  })
})

describe('a chain that takes back blocks', () => {
  it('holds up the next payment once, and no later one', async () => {
    expect((await settle(await sign())).body).toMatchObject({ success: true })
    await devnet.chain.client.request({ method: 'anvil_rollback', params: [1] } as never)
    // Its account nonce lies past the one that was freed.
    const held = await sign()
    expect((await settle(held)).body).toMatchObject({ success: false, errorReason: 'settlement_pending' })
    expect((await settle(await sign())).body).toMatchObject({ success: true })
    expect(await devnet.chain.authorizationState(held.from, held.nonce)).toBe(true)
  })
})
