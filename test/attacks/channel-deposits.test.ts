/** T37: a buyer that has a seller send deposits to the chain that nobody pays for. The seller, its listener and the chain are real. */
import { expect, onTestFinished, test } from 'vitest'
import { startDevnet } from '../../devnet/devnet.ts'
import { signVoucher } from '../../src/payments/voucher.ts'
import type { ChannelConfig } from '../../src/schema/channel.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { sendTask, termsAt } from '../support/public-seller.ts'
import { accountOf, type TestAccount, TestChannels } from '../support/test-channels.ts'
import { startTestNode } from '../support/test-node.ts'

const PRICE = 1_000n
const DEPOSIT = 100_000n
/** Deposits of one payer in an hour that no call has paid for. */
const UNPAID_MAX = 20

async function openSeller() {
  const devnet = await startDevnet()
  onTestFinished(() => devnet.stop())
  const walletKey = devnet.wallets.seller.privateKey
  const seller = await startTestNode({ devnet, walletKey, public: { port: 0 }, seller: { channels: 'auto' } })
  onTestFinished(() => seller.stop())
  const definition = { name: 'echo', description: 'Says it again', price: PRICE }
  const { id } = await seller.node.registerAgent(definition, { persist: false, run: (task) => task })
  const url = `${seller.publicUrl}/x402/${id}`
  const accepted = (await termsAt(url)).accepts.find(({ scheme }) => scheme === 'batch-settlement')!
  return { devnet, url, accepted }
}

test('T37 hazard 4.19: a payer has 20 deposits an hour sent that nobody has paid for, and others go on', async () => {
  const { devnet, url, accepted } = await openSeller()
  const { receiverAuthorizer, withdrawDelay } = accepted.extra as { receiverAuthorizer: Hex; withdrawDelay: number }
  async function openBuyer() {
    const channels = new TestChannels(devnet.chain, accountOf())
    await devnet.fund(channels.payer.address, 10_000_000n)
    // A key has 16 channels at most.
    const sessions = [accountOf(), accountOf()]
    let opened = 0
    function open() {
      const session = sessions[opened++ % 2]!
      const parties = { receiver: accepted.payTo as Hex, receiverAuthorizer, payerAuthorizer: session.address }
      return { session, config: channels.config({ ...parties, withdrawDelay }) }
    }
    /** Fills a channel up. The call that comes along costs `ceiling` in all. */
    async function deposit({ config, session }: { config: ChannelConfig; session: TestAccount }, ceiling: bigint) {
      const channelId = channels.id(config)
      const voucher = signVoucher({ channelId, maxClaimableAmount: ceiling }, session.key, 84_532)
      const { authorization } = channels.signedDeposit(config, DEPOSIT)
      const signed = { amount: DEPOSIT, authorization: { erc3009Authorization: authorization } }
      const payload = { type: 'deposit', channelConfig: config, voucher, deposit: signed }
      const text = JSON.stringify({ x402Version: 2, accepted, payload }, (_, value) =>
        typeof value === 'bigint' ? `${value}` : value,
      )
      const answer = await sendTask(url, 'task', { 'payment-signature': Buffer.from(text).toString('base64') })
      return { status: answer.status, balance: (await channels.state(config)).balance }
    }
    return { open, deposit }
  }
  const buyer = await openBuyer()
  const first = buyer.open()
  expect(await buyer.deposit(first, PRICE)).toEqual({ status: 200, balance: DEPOSIT })
  for (let opened = 1; opened < UNPAID_MAX; opened++) {
    expect(await buyer.deposit(buyer.open(), PRICE)).toEqual({ status: 200, balance: DEPOSIT })
  }
  expect(await buyer.deposit(buyer.open(), PRICE)).toEqual({ status: 402, balance: 0n })
  // A call has paid for the last deposit of this channel.
  expect(await buyer.deposit(first, 2n * PRICE)).toEqual({ status: 200, balance: 2n * DEPOSIT })
  const other = await openBuyer()
  expect(await other.deposit(other.open(), PRICE)).toEqual({ status: 200, balance: DEPOSIT })
}, 120_000)
