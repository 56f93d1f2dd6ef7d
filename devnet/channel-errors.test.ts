import {
  type Abi,
  encodeAbiParameters,
  encodeDeployData,
  encodeFunctionData,
  type Hex,
  maxUint128,
  parseAbiParameters,
  zeroAddress,
} from 'viem'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { channelCalls } from '../src/chain/batch-settlement.ts'
import type { ChannelConfig } from '../src/schema/channel.ts'
import { channelVectors } from '../test/support/channel-vectors.ts'
import { highS } from '../test/support/signed-payment.ts'
import { accountOf, channelAbi, TestChannels } from '../test/support/test-channels.ts'
import { type DevChain, startChain, usdcAbi } from './chain.ts'
import { addresses, readArtifact } from './contracts.ts'

const { contracts } = readArtifact()
/** A collector that delivers tokens of its own. */
const OPEN_COLLECTOR = '0x00000000000000000000000000000000000c0113'

let chain: DevChain
let channels: TestChannels
/** A channel of 1,000 units of which nothing is claimed. Tests only simulate calls on it. */
let config: ChannelConfig

beforeAll(async () => {
  chain = await startChain()
  channels = await new TestChannels(chain).start()
  config = await channels.open(1_000n)
  await install(OPEN_COLLECTOR, contracts.OpenDepositCollector.bytecode)
  await chain.mint(OPEN_COLLECTOR, 1_000_000n)
})
afterAll(() => chain.stop())

async function install(address: Hex, code: Hex): Promise<void> {
  const { data } = await chain.client.call({ data: code })
  await chain.client.setCode({ address, bytecode: data! })
}

/** A deposit by a collector that delivers what it is told, and calls back if it is told to. */
function gift(
  terms: ChannelConfig,
  amount: bigint,
  { delivered = amount, callback = '0x', collector = OPEN_COLLECTOR } = {},
) {
  const data = encodeAbiParameters(parseAbiParameters('uint256, bytes'), [delivered, callback as Hex])
  return encodeFunctionData({ abi: channelAbi, functionName: 'deposit', args: [terms, amount, collector, data] })
}

type Case = [error: string, when: string, attempt: () => Promise<string>]
const by =
  (name: 'payer' | 'session' | 'receiver' | 'authorizer' | 'stranger', call: () => Hex | Promise<Hex>) => async () =>
    channels.errorOf(channels[name], await call())
const deposit = (changes: Partial<ChannelConfig>) => () => channels.depositCall(channels.config(changes), 1n)
const claim = (call: () => Parameters<typeof channelCalls.claim>[0]) => by('receiver', () => channelCalls.claim(call()))

const deposits: Case[] = [
  ...(['payer', 'receiver', 'receiverAuthorizer', 'token'] as const).map(
    (field): Case => ['InvalidChannel', `the ${field} is nobody`, by('payer', deposit({ [field]: zeroAddress }))],
  ),
  ['WithdrawDelayOutOfRange', 'the delay is a second too short', by('payer', deposit({ withdrawDelay: 899 }))],
  ['WithdrawDelayOutOfRange', 'the delay is a second too long', by('payer', deposit({ withdrawDelay: 2_592_001 }))],
  ['ZeroDeposit', 'nothing is deposited', by('payer', () => channels.depositCall(config, 0n))],
  ['InvalidCollector', 'no collector is named', by('payer', () => gift(config, 1n, { collector: zeroAddress }))],
  ['DepositOverflow', 'the balance would need 129 bits', by('payer', () => gift(config, maxUint128 - 999n))],
  ['DepositCollectionFailed', 'a unit too little arrives', by('payer', () => gift(config, 10n, { delivered: 9n }))],
  ['DepositCollectionFailed', 'a unit too much arrives', by('payer', () => gift(config, 10n, { delivered: 11n }))],
  [
    'ReentrancyGuardReentrantCall',
    'a collector calls back',
    by('payer', () => gift(config, 1n, { callback: channelCalls.settle(channels.receiver.address, addresses.usdc) })),
  ],
  [
    'OnlyX402BatchSettlement',
    'somebody else calls the collector',
    async () => {
      const args = [channels.payer.address, addresses.usdc, 1n, channels.id(config), '0x']
      const { abi } = contracts.Erc3009DepositCollector
      const data = encodeFunctionData({ abi: abi as Abi, functionName: 'collect', args })
      return channels.errorOf(channels.stranger, data, addresses.erc3009DepositCollector)
    },
  ],
  [
    'InvalidX402BatchSettlementAddress',
    'a collector is made for no contract',
    async () => {
      const { abi, bytecode } = contracts.Erc3009DepositCollector
      return channels.errorOf(
        channels.stranger,
        encodeDeployData({ abi: abi as Abi, bytecode, args: [zeroAddress] }),
        null,
      )
    },
  ],
]

const claims: Case[] = [
  ['EmptyBatch', 'nothing is claimed', claim(() => [])],
  ['EmptyBatch', 'nothing is claimed by a signature', by('stranger', () => channels.signedClaim([]))],
  ['NotAuthorizedToClaim', 'the payer claims', by('payer', () => channelCalls.claim([channels.row(config, 1n)]))],
  ['ClaimExceedsCeiling', 'more than the voucher allows', claim(() => [channels.row(config, 101n, { max: 100n })])],
  ['ClaimExceedsBalance', 'more than the balance', claim(() => [channels.row(config, 1_001n)])],
  ['ClaimExceedsBalance', 'a channel without deposits', claim(() => [channels.row(channels.config(), 1n)])],
  [
    'InvalidSignature',
    'a voucher by a stranger',
    claim(() => [channels.row(config, 1n, { signer: channels.stranger })]),
  ],
  [
    'InvalidSignature',
    'a voucher by the payer, who has named an authorizer',
    claim(() => [channels.row(config, 1n, { signer: channels.payer })]),
  ],
  [
    'InvalidSignature',
    'a batch that the receiver itself has signed',
    by('stranger', () => channels.signedClaim([channels.row(config, 1n)], channels.receiver)),
  ],
  [
    'NotReceiverAuthorizer',
    'a batch over channels of two authorizers',
    by('stranger', () => {
      const other = channels.config({ receiverAuthorizer: channels.stranger.address })
      return channels.signedClaim([channels.row(config, 1n), channels.row(other, 1n)])
    }),
  ],
  ...(
    [
      ['ECDSAInvalidSignatureLength', 'of 64 bytes', (signature) => signature.slice(0, -2) as Hex],
      ['ECDSAInvalidSignatureS', 'with a high s', highS],
      ['ECDSAInvalidSignature', 'with a v of 29', (signature) => `${signature.slice(0, -2)}1d` as Hex],
    ] satisfies [string, string, (signature: Hex) => Hex][]
  ).map(([error, kind, alter]): Case => {
    const row = () => channels.row(config, 1n)
    return [error, `a voucher ${kind}`, claim(() => [{ ...row(), signature: alter(row().signature) }])]
  }),
]

const exits: Case[] = [
  ['InvalidChannel', 'the receiver withdraws', by('receiver', () => channelCalls.initiateWithdraw(config, 1n))],
  ['NothingToWithdraw', 'nothing is withdrawn', by('payer', () => channelCalls.initiateWithdraw(config, 0n))],
  [
    'WithdrawAmountExceedsAvailable',
    'more than is there',
    by('session', () => channelCalls.initiateWithdraw(config, 1_001n)),
  ],
  [
    'WithdrawAmountExceedsAvailable',
    'a channel without deposits',
    by('payer', () => channelCalls.initiateWithdraw(channels.config(), 1n)),
  ],
  ['WithdrawalNotPending', 'none was started', by('payer', () => channelCalls.finalizeWithdraw(config))],
  [
    'NotAuthorizedToFinalizeWithdraw',
    'the receiver ends it',
    by('receiver', () => channelCalls.finalizeWithdraw(config)),
  ],
  ['NotAuthorizedToRefund', 'the payer refunds itself', by('payer', () => channelCalls.refund(config, 1n))],
  ['ZeroRefund', 'nothing is refunded', by('receiver', () => channelCalls.refund(config, 0n))],
  ['ZeroRefund', 'nothing is refunded by a signature', by('stranger', () => channels.signedRefund(config, 0n, 0n))],
  ['InvalidRefundNonce', 'a nonce ahead of its turn', by('stranger', () => channels.signedRefund(config, 1n, 1n))],
  [
    'InvalidSignature',
    'a refund that the receiver itself has signed',
    by('stranger', () => channels.signedRefund(config, 1n, 0n, channels.receiver)),
  ],
  [
    'WithdrawalAlreadyPending',
    'a second one',
    async () => {
      const pending = await channels.open(10n)
      await channels.send(channels.payer, channelCalls.initiateWithdraw(pending, 1n))
      return channels.errorOf(channels.session, channelCalls.initiateWithdraw(pending, 1n))
    },
  ],
  [
    'WithdrawDelayNotElapsed',
    'the delay has only begun',
    async () => {
      const pending = await channels.open(10n)
      await channels.send(channels.payer, channelCalls.initiateWithdraw(pending, 1n))
      return channels.errorOf(channels.payer, channelCalls.finalizeWithdraw(pending))
    },
  ],
  [
    'SafeERC20FailedOperation',
    'the token has gone',
    async () => {
      const token = accountOf().address
      await install(token, contracts.UsdcLike.bytecode)
      const mint = { abi: contracts.UsdcLike.abi as Abi, functionName: 'mint', args: [OPEN_COLLECTOR, 5n] }
      await chain.submit({ to: token, data: encodeFunctionData(mint) })
      const terms = channels.config({ token })
      await channels.send(channels.stranger, gift(terms, 5n))
      await chain.client.setCode({ address: token, bytecode: '0x' })
      return channels.errorOf(channels.receiver, channelCalls.refund(terms, 1n))
    },
  ],
]

describe('the contract of payment channels', () => {
  it.each(deposits)('refuses a deposit with %s: %s', async (error, _, attempt) => {
    expect(await attempt()).toBe(error)
  })

  it.each(claims)('refuses a claim with %s: %s', async (error, _, attempt) => {
    expect(await attempt()).toBe(error)
  })

  it.each(exits)('refuses a way out with %s: %s', async (error, _, attempt) => {
    expect(await attempt()).toBe(error)
  })

  it('has no error that is not met here', () => {
    const abis = [channelAbi, contracts.Erc3009DepositCollector.abi].flat() as Abi
    const errors = abis.flatMap((item) => (item.type === 'error' ? [item.name] : []))
    const named = Object.keys(channelVectors.selectors).map((signature) => signature.split('(')[0]!)
    const known = new Set(errors.filter((error) => named.includes(error)))
    expect(known.size).toBe(28)
    expect(new Set([...deposits, ...claims, ...exits].map(([error]) => error))).toEqual(known)
  })

  it('moves nothing in a call that it refuses', async () => {
    expect(await channels.state(config)).toEqual({
      ...{ balance: 1_000n, totalClaimed: 0n, withdrawal: undefined, refundNonce: 0n },
    })
  })
})

describe("the payer's authorization of a deposit", () => {
  it('funds no other channel, and no other amount', async () => {
    const config = channels.config()
    const { authorization } = channels.signedDeposit(config, 20n)
    for (const call of [
      channelCalls.deposit(channels.config(), 20n, authorization),
      channelCalls.deposit(config, 21n, authorization),
    ]) {
      expect(await channels.errorOf(channels.stranger, call)).toBe('FiatTokenV2: invalid signature')
    }
  })

  it('is used once', async () => {
    const { data } = channels.signedDeposit(channels.config(), 20n)
    await channels.send(channels.stranger, data)
    const reason = 'FiatTokenV2: authorization is used or canceled'
    expect(await channels.errorOf(channels.stranger, data)).toBe(reason)
  })

  it.each([
    ['receiveWithAuthorization', 'FiatTokenV2: caller must be the payee'],
    ['transferWithAuthorization', 'FiatTokenV2: invalid signature'],
  ])('is of no use to a stranger who calls %s of USDC', async (functionName, reason) => {
    const { validAfter, validBefore, nonce, signature } = channels.signedDeposit(channels.config(), 20n).authorization
    const [from, to] = [channels.payer.address, addresses.erc3009DepositCollector]
    const args = [from, to, 20n, validAfter, validBefore, nonce, signature] as const
    const call = encodeFunctionData({ abi: usdcAbi, functionName, args } as never)
    expect(await channels.errorOf(channels.stranger, call, addresses.usdc)).toBe(reason)
  })
})
