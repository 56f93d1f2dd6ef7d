import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { createChain } from '../../src/chain/chain.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { createFacilitator, type Facilitator } from '../../src/payments/facilitator.ts'
import { createWallet, type Wallet, walletAddress } from '../../src/payments/wallet.ts'
import { HandClock } from './hand-clock.ts'
import { randomHex, usdc } from './payments.ts'
import { TestBuyer } from './test-buyer.ts'
import { TestSeller, type TestSellerOptions } from './x402-seller.ts'

/**
 * A seller over streams in memory with the real chain and the real facilitator. Balances on the chain show who was
 * paid. The test moves the time by hand.
 */
export type ChainMarket = {
  devnet: Devnet
  facilitator: Facilitator
  /** A seller with a payee address of its own. */
  seller(options?: TestSellerOptions): Promise<TestSeller & { payee: `0x${string}` }>
  /** A new account with this balance. */
  payer(balance?: bigint): Promise<Wallet>
  /** An honest buyer of a seller. */
  buyer(seller: TestSeller & { payee: `0x${string}` }, wallet: Wallet): TestBuyer
  stop(): Promise<void>
}

export async function startChainMarket(): Promise<ChainMarket> {
  const devnet = await startDevnet()
  const facilitator = createFacilitator({ url: devnet.facilitatorUrl })
  const sellers: TestSeller[] = []
  return {
    devnet,
    facilitator,
    async seller(options = {}) {
      const payee = walletAddress(randomHex())
      const chain = createChain(
        { network: usdc.network, asset: usdc.address, rpcUrl: devnet.rpcUrl, timeoutMs: 30_000 },
        { logger: silentLogger },
      )
      const clock = new HandClock(systemClock.now())
      const parts = { clock, facilitator, chain, payTo: payee, attemptTimeoutMs: 10_000, ...options }
      const seller = await new TestSeller(parts).start()
      sellers.push(seller)
      return Object.assign(seller, { payee })
    },
    async payer(balance = 1_000_000n) {
      const wallet = createWallet(randomHex(), usdc)
      await devnet.fund(wallet.address, balance)
      return wallet
    },
    buyer(seller, wallet) {
      const { clock } = seller
      const dailyBudget = 10n ** 9n
      const buyer = new TestBuyer({
        clock,
        wallet,
        dailyBudget,
        open: (_peer, protocol) => seller.open('honest', protocol),
      })
      buyer.list({ pay_to: seller.payee })
      return buyer
    },
    async stop() {
      await Promise.all(sellers.map((seller) => seller.stop()))
      await facilitator.close()
      await devnet.stop()
    },
  }
}
