import { describe, expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { testWallet, usdc } from '../../test/support/payments.ts'
import { ScriptedSeller } from '../../test/support/scripted-seller.ts'
import { TestBuyer } from '../../test/support/test-buyer.ts'
import { silentLogger } from '../lib/logger.ts'
import { assets } from '../payments/assets.ts'
import { createWallet } from '../payments/wallet.ts'
import { createWalletChecks } from './wallet-checks.ts'

const signal = AbortSignal.timeout(60_000)
const { address } = testWallet()

function fundsOf(balance: () => Promise<bigint>, asset: typeof usdc | (typeof assets)['eip155:8453'] = usdc) {
  const clock = new HandClock()
  const wallet = createWallet(`0x${'01'.repeat(32)}`, asset)
  let asked = 0
  const chain = {
    network: asset.network,
    request: async () => '0x',
    usdcBalance: () => {
      asked++
      return balance()
    },
  }
  return { clock, funds: createWalletChecks({ clock, logger: silentLogger, wallet, chain }), asked: () => asked }
}

describe('INSUFFICIENT_FUNDS', () => {
  test('an empty wallet is told its address, what is missing and the faucet, and nothing is signed', async () => {
    const { funds } = fundsOf(async () => 2_500n)
    const seller = new ScriptedSeller(async (stream) => {
      await stream.challenge(await stream.next())
      await stream.next()
    })
    const buyer = new TestBuyer({ open: seller.open, funds })
    const call = buyer.execute()
    await expect(call).rejects.toMatchObject({ name: 'MarketError', code: 'INSUFFICIENT_FUNDS' })
    const said = await call.catch((error: Error) => error.message)
    expect(said).toContain(`${address} holds 0.0025 USDC on Base Sepolia, test money`)
    expect(said).toContain('this call costs 0.01 USDC: 0.0075 USDC are missing')
    expect(said).toContain('https://faucet.circle.com')
    expect(await buyer.ledger()).toMatchObject([
      { order: { status: 'failed', error: { code: 'INSUFFICIENT_FUNDS' } }, reservation: undefined },
    ])
    expect([seller.received.length, await buyer.spent()]).toEqual([1, 0n])
  })

  test('names no faucet for real money', async () => {
    const { funds } = fundsOf(async () => 0n, assets['eip155:8453'])
    await expect(funds.check(1n, signal)).rejects.toThrow(/^(?!.*faucet).*Base, real money/)
  })

  test('an exact balance is enough, and is not promised twice', async () => {
    let balance = 10_000n
    const { funds } = fundsOf(async () => balance)
    await funds.check(10_000n, signal)
    balance = 0n
    await expect(funds.check(10_000n, signal)).rejects.toMatchObject({ code: 'INSUFFICIENT_FUNDS' })
  })

  test('a wallet with enough is read once in 15 s, whatever it buys in between', async () => {
    const { funds, asked, clock } = fundsOf(async () => 1_000_000n)
    for (let call = 0; call < 50; call++) await funds.check(10_000n, signal)
    expect(asked()).toBe(1)
    clock.advance(15_000)
    await funds.check(10_000n, signal)
    expect(asked()).toBe(2)
  })

  test('T16 a wall clock that is set back makes no old balance a fresh one', async () => {
    let balance = 1_000_000n
    const { funds, clock } = fundsOf(async () => balance)
    await funds.check(10_000n, signal)
    balance = 0n
    clock.advance(15_000)
    clock.jump(-3_600_000)
    await expect(funds.check(10_000n, signal)).rejects.toMatchObject({ code: 'INSUFFICIENT_FUNDS' })
  })

  test('an RPC that fails stops no purchase', async () => {
    const { funds } = fundsOf(() => Promise.reject(new Error('down')))
    await funds.check(10_000n, signal)
  })
})
