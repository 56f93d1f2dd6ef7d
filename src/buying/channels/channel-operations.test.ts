import { expect, test } from 'vitest'
import { payTo, randomHex, usdc } from '../../../test/support/payments.ts'
import type { Listing } from '../../schema/listing.ts'
import { createChannelOperations } from './channel-operations.ts'
import { type Offer, usualDeposit } from './offer.ts'

const channel = { receiver_authorizer: payTo, withdraw_delay: 900, min_deposit: 1n }
const parties = { id: 'a1', seller_id: 'seller', addrs: [], network: usdc.network, asset: usdc.address, pay_to: payTo }

/** What a channel is opened with by hand. */
async function offered(listing: Partial<Listing>): Promise<Offer> {
  let asked: Offer | undefined
  const operations = createChannelOperations(
    { mode: 'auto' },
    {
      channels: {
        async open(offer) {
          asked = offer
          return randomHex()
        },
        exits: undefined,
      },
      store: { get: async () => undefined },
      resolve: () => ({ ...parties, name: 'Writer', channel, local: false, buyable: true, ...listing }) as Listing,
      recovery: undefined,
    },
  )
  await operations.open({ agentId: 'a1' })
  return asked!
}

test('a deposit by hand pays 20 calls at what a call on a channel costs at most, not at its price without one', async () => {
  const pricing = { per_1k_output_tokens: 1_000n, max: 2_000n }
  const metered = await offered({ price: 9_000n, pricing })
  expect(usualDeposit(metered, 1_000_000n)).toBe(20n * 2_000n)
  expect(usualDeposit(await offered({ price: 9_000n }), 1_000_000n)).toBe(20n * 9_000n)
})
