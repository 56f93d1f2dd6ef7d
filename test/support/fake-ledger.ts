import { createChannelsApi } from '../../src/ledger/channels-api.ts'
import { createLedgerApi } from '../../src/ledger/ledger-api.ts'
import { createEarnings } from '../../src/ledger/stats.ts'
import { retrySettlement } from '../../src/payments/outbox-entry.ts'
import { createBuyerChannels } from '../../src/store/buyer-channels.ts'
import { openDatabase } from '../../src/store/database.ts'
import { createLedgerReader } from '../../src/store/ledger-reader.ts'
import { createPayments } from '../../src/store/payments.ts'
import { createSellerChannelStore } from '../../src/store/seller-channels.ts'
import { payingChannelOf } from './buyer-channels.ts'
import { HandClock } from './hand-clock.ts'
import { claim, exchangeOf } from './payments.ts'

/** The real reads of the ledger over a database in memory. It holds one owed payment, the order that it paid for, and one channel. */
export function fakeLedger() {
  const clock = new HandClock(Date.now())
  const database = openDatabase({ path: ':memory:' })
  const payments = createPayments(database)
  const payment = claim(clock.now())
  const paying = createBuyerChannels(database)
  const channel = payingChannelOf()
  const owed = { id: payment.id, state: 'owed', attempts: 1, nextAttemptAt: clock.now() + 60_000 } as const
  const ready = Promise.all([
    payments.claim(payment, clock.now()),
    payments.deliver(owed, exchangeOf(payment, clock.now()), clock.now()),
    paying.putDeposit(channel, () => true),
  ])
  const ledger = createLedgerReader(database)
  const nameOf = () => 'Summary'
  return {
    paymentId: payment.id,
    channelId: channel.id,
    /** Resolves when the records are stored. */
    ready,
    ledger: createLedgerApi({
      ownerOf: async () => undefined,
      ...{ ledger, nameOf, named: () => [], look: async () => {}, isReceived: async () => false },
      refund: async () => {},
      retrySettlement: (id) => retrySettlement(id, { payments, clock, wake: () => {} }),
    }),
    channels: createChannelsApi({
      ...{ network: 'eip155:84532', paying, paid: createSellerChannelStore(database) },
      namesOf: () => undefined,
      peerNames: () => new Map(),
    }),
    earnings: createEarnings({ clock, ledger, decimals: 6, nameOf }),
  }
}
