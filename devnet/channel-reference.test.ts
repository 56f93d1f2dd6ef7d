import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { HTTPFacilitatorClient } from '@x402/core/server'
import type { PaymentPayload, PaymentRequirements } from '@x402/core/types'
import { BatchSettlementEvmScheme as ReferenceServer } from '@x402/evm/batch-settlement/server'
import { paymentMiddleware, x402ResourceServer } from '@x402/express'
import express from 'express'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { channelCalls } from '../src/chain/batch-settlement.ts'
import { signDigest } from '../src/payments/authorization.ts'
import { claimBatchDigest, refundDigest } from '../src/payments/channel-digests.ts'
import { checkVoucher, signVoucher } from '../src/payments/voucher.ts'
import { ChannelConfig, SignedVoucher } from '../src/schema/channel.ts'
import { channelVectors, vectorConfig } from '../test/support/channel-vectors.ts'
import { referenceClient } from '../test/support/http-channel-buyer.ts'
import { accountOf, type TestAccount, TestChannels } from '../test/support/test-channels.ts'
import { CHAIN_ID, type DevChain, NETWORK, usdcDomain } from './chain.ts'
import { addresses } from './contracts.ts'
import { type Devnet, startDevnet } from './devnet.ts'

const PRICE = 1_000n
const WITHDRAW_DELAY = 900

let devnet: Devnet
let chain: DevChain
let channels: TestChannels
/** The devnet's facilitator, which is the reference behind HTTP. */
let facilitator: HTTPFacilitatorClient
let seller: ReferenceSeller

beforeAll(async () => {
  devnet = await startDevnet()
  chain = devnet.chain
  channels = await new TestChannels(chain).start()
  facilitator = new HTTPFacilitatorClient({ url: devnet.facilitatorUrl })
  seller = await startSeller()
})
afterAll(async () => {
  seller.http.closeAllConnections()
  await new Promise((resolve) => seller.http.close(resolve))
  await devnet.stop()
})

type ReferenceSeller = { http: Server; url: string; scheme: ReferenceServer; served: number }

/** A seller as the reference's documentation builds one: Express, its middleware and its scheme. */
async function startSeller(): Promise<ReferenceSeller> {
  const { receiver, authorizer } = channels
  const scheme = new ReferenceServer(receiver.address, {
    receiverAuthorizerSigner: authorizer,
    withdrawDelay: WITHDRAW_DELAY,
  })
  const resourceServer = new x402ResourceServer(facilitator).register(NETWORK, scheme)
  const accepts = { scheme: 'batch-settlement', price: '$0.001', network: NETWORK, payTo: receiver.address } as const
  const app = express()
  app.use(paymentMiddleware({ 'GET /work': { accepts, description: 'Works.' } }, resourceServer))
  app.use((_, response) => {
    seller.served++
    response.json({ output: 'done' })
  })
  const http = app.listen(0, '127.0.0.1')
  await new Promise((resolve) => http.once('listening', resolve))
  return { http, url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/work`, scheme, served: 0 }
}

/** Its vouchers are signed by a key beside its wallet. */
async function startBuyer() {
  const [wallet, session] = [accountOf(), accountOf()]
  await chain.mint(wallet.address, 1_000_000n)
  const { client, pay } = referenceClient({ chain }, { wallet, session }, fetch)
  const buy = async () => {
    const answer = await pay(seller.url)
    return [answer.status, await answer.json()]
  }
  return { wallet, session, client, buy }
}

async function storedChannel(payer: TestAccount) {
  const stored = await seller.scheme.getStorage().list()
  return stored.find(({ channelConfig }) => channelConfig.payer === payer.address)!
}

describe("the reference's client, server and facilitator", () => {
  it('open a channel, pay five calls, claim, settle and refund against the contract of the devnet', async () => {
    const buyer = await startBuyer()
    for (let call = 0; call < 5; call++) expect(await buyer.buy()).toEqual([200, { output: 'done' }])
    expect(seller.served).toBe(5)
    const stored = await storedChannel(buyer.wallet)
    const config = ChannelConfig.parse(stored.channelConfig)
    expect(config).toMatchObject({ payerAuthorizer: buyer.session.address, withdrawDelay: WITHDRAW_DELAY })
    const deposited = 10n * PRICE
    expect(await channels.state(config)).toMatchObject({ balance: deposited, totalClaimed: 0n })

    const manager = seller.scheme.createChannelManager(facilitator, NETWORK, addresses.usdc)
    const before = await chain.balanceOf(channels.receiver.address)
    const { claims, settle } = await manager.claimAndSettle()
    expect([claims.length, settle?.transaction]).toEqual([1, expect.stringMatching(/^0x[0-9a-f]{64}$/)])
    expect(await channels.state(config)).toMatchObject({ balance: deposited, totalClaimed: 5n * PRICE })
    expect((await chain.balanceOf(channels.receiver.address)) - before).toBe(5n * PRICE)

    expect(await buyer.buy()).toEqual([200, { output: 'done' }])
    expect(await buyer.client.refund(seller.url)).toMatchObject({ success: true, amount: `${4n * PRICE}` })
    expect(await channels.state(config)).toMatchObject({
      balance: 6n * PRICE,
      totalClaimed: 6n * PRICE,
      refundNonce: 1n,
    })
    expect(await chain.balanceOf(buyer.wallet.address)).toBe(1_000_000n - 6n * PRICE)
  })

  it('top a channel up when it is used up', async () => {
    const buyer = await startBuyer()
    for (let call = 0; call < 11; call++) expect(await buyer.buy()).toEqual([200, { output: 'done' }])
    const config = ChannelConfig.parse((await storedChannel(buyer.wallet)).channelConfig)
    expect((await channels.state(config)).balance).toBe(20n * PRICE)
  })

  it('make channels and vouchers that this node takes', async () => {
    const buyer = await startBuyer()
    await buyer.buy()
    await buyer.buy()
    const { channelId, channelConfig, signedMaxClaimable, signature } = await storedChannel(buyer.wallet)
    const voucher = SignedVoucher.parse({ channelId, maxClaimableAmount: signedMaxClaimable, signature })
    expect(voucher.maxClaimableAmount).toBe(2n * PRICE)
    expect(checkVoucher(ChannelConfig.parse(channelConfig), voucher, CHAIN_ID)).toEqual({ ok: true, voucher })
  })
})

/** What this seller asks of a buyer of the scheme. */
function requirementsOf({ receiver, receiverAuthorizer, withdrawDelay }: ChannelConfig): PaymentRequirements {
  return {
    ...{ scheme: 'batch-settlement', network: NETWORK, amount: `${PRICE}`, asset: addresses.usdc, payTo: receiver },
    maxTimeoutSeconds: 60,
    extra: { receiverAuthorizer, withdrawDelay, name: usdcDomain.name, version: usdcDomain.version },
  }
}

function payloadOf(requirements: PaymentRequirements, payload: object): PaymentPayload {
  return { x402Version: 2, accepted: requirements, payload: payload as Record<string, unknown> }
}

/** A voucher of this node in the form of the scheme. */
function voucherOf(config: ChannelConfig, max: bigint, signer = channels.session) {
  const signed = signVoucher({ channelId: channels.id(config), maxClaimableAmount: max }, signer.key, CHAIN_ID)
  return { ...signed, maxClaimableAmount: `${max}` }
}

/** A deposit of this node, with a voucher, in the form of the scheme. */
function depositPayload(config: ChannelConfig, amount: bigint, max: bigint) {
  const { validAfter, validBefore, salt, signature } = channels.signedDeposit(config, amount).authorization
  const erc3009Authorization = { validAfter: `${validAfter}`, validBefore: `${validBefore}`, salt, signature }
  const deposit = { amount: `${amount}`, authorization: { erc3009Authorization } }
  return { type: 'deposit', channelConfig: config, voucher: voucherOf(config, max), deposit }
}

describe("the devnet's facilitator", () => {
  const ask = async (operation: 'verify' | 'settle', config: ChannelConfig, payload: object) => {
    const requirements = requirementsOf(config)
    return facilitator[operation](payloadOf(requirements, payload), requirements)
  }

  it('takes the deposit, the vouchers, the claim and the refund of this node', async () => {
    const config = channels.config()
    const channelId = channels.id(config)
    const deposit = depositPayload(config, 10_000n, PRICE)
    expect(await ask('verify', config, deposit)).toMatchObject({ isValid: true, payer: channels.payer.address })
    expect(await ask('settle', config, deposit)).toMatchObject({ success: true })
    const voucher = (max: bigint) => ({ type: 'voucher', channelConfig: config, voucher: voucherOf(config, max) })
    expect(await ask('verify', config, voucher(3_000n))).toMatchObject({
      isValid: true,
      extra: { channelId, balance: '10000', totalClaimed: '0', refundNonce: '0' },
    })

    const [max, total] = [3_000n, 2_500n]
    const claims = [
      {
        voucher: { channel: config, maxClaimableAmount: `${max}` },
        signature: voucherOf(config, max).signature,
        totalClaimed: `${total}`,
      },
    ]
    const entries = [{ channelId, maxClaimableAmount: max, totalClaimed: total }]
    const claimAuthorizerSignature = signDigest(claimBatchDigest(entries, CHAIN_ID), channels.authorizer.key)
    expect(await ask('settle', config, { type: 'claim', claims, claimAuthorizerSignature })).toMatchObject({
      success: true,
    })
    expect(await channels.state(config)).toMatchObject({ balance: 10_000n, totalClaimed: total })

    const refund = { channelId, nonce: 0n, amount: 7_500n }
    const refundAuthorizerSignature = signDigest(refundDigest(refund, CHAIN_ID), channels.authorizer.key)
    const completed = { ...voucher(total), type: 'refund', amount: '7500', refundNonce: '0', claims: [] }
    expect(await ask('settle', config, { ...completed, refundAuthorizerSignature })).toMatchObject({
      ...{ success: true, amount: '7500' },
    })
    expect(await channels.state(config)).toMatchObject({ balance: total, totalClaimed: total, refundNonce: 1n })
  })

  it('takes a claim of 100 channels, the most that the reference’s seller sends at once', async () => {
    const configs = Array.from({ length: 100 }, () => channels.config())
    for (let index = 0; index < configs.length; index += 25) {
      const deposits = configs.slice(index, index + 25).map((config) => channels.depositCall(config, 10n))
      await channels.send(channels.stranger, channelCalls.multicall(deposits))
    }
    const rows = configs.map((config) => channels.row(config, 7n))
    const claims = rows.map(({ config, signature }) => ({
      voucher: { channel: config, maxClaimableAmount: '7' },
      ...{ signature, totalClaimed: '7' },
    }))
    const entries = configs.map((config) => ({
      ...{ channelId: channels.id(config), maxClaimableAmount: 7n, totalClaimed: 7n },
    }))
    const claimAuthorizerSignature = signDigest(claimBatchDigest(entries, CHAIN_ID), channels.authorizer.key)
    const payload = { type: 'claim', claims, claimAuthorizerSignature }
    expect(await ask('settle', configs[0]!, payload)).toMatchObject({ success: true })
    const states = await channels.reader.channels(entries.map(({ channelId }) => channelId))
    expect(states.map(({ totalClaimed }) => totalClaimed)).toEqual(configs.map(() => 7n))
  })

  it.each([
    ['signed by another key', 'voucher_signature', () => ({ max: PRICE, signer: channels.payer })],
    ['above the balance', 'cumulative_exceeds_balance', () => ({ max: 10_001n })],
    ['of what is claimed', 'cumulative_below_claimed', () => ({ max: 0n })],
  ] as const)('refuses a voucher %s with the reason %s', async (_, reason, make) => {
    const config = await channels.open(10_000n)
    const { max, signer }: { max: bigint; signer?: TestAccount } = make()
    const payload = { type: 'voucher', channelConfig: config, voucher: voucherOf(config, max, signer) }
    expect(await ask('verify', config, payload)).toMatchObject({
      isValid: false,
      invalidReason: `invalid_batch_settlement_evm_${reason}`,
    })
  })

  it('refunds for nobody: the signature of the receiver’s side must come with the request', async () => {
    const config = await channels.open(10_000n)
    const payload = { type: 'refund', channelConfig: config, voucher: voucherOf(config, 0n), claims: [] }
    const unsigned = { ...payload, amount: '10000', refundNonce: '0' }
    await expect(ask('settle', config, unsigned)).resolves.toMatchObject({
      ...{ success: false, errorReason: 'invalid_batch_settlement_evm_authorizer_not_configured' },
    })
    expect((await channels.state(config)).balance).toBe(10_000n)
  })

  it('settles the payment of the vectors', async () => {
    const { deposits, accounts } = channelVectors
    const { paymentPayload, amount } = deposits.find(({ chainId }) => chainId === CHAIN_ID)!
    await chain.mint(accounts.payer.address, BigInt(amount))
    const requirements = paymentPayload.accepted as PaymentRequirements
    const payload = { ...paymentPayload, x402Version: 2 } as PaymentPayload
    expect(await facilitator.settle(payload, requirements)).toMatchObject({ success: true })
    expect((await channels.state(vectorConfig('A', CHAIN_ID))).balance).toBe(BigInt(amount))
  })
})
