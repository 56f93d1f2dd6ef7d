import { expect, onTestFinished, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { testWallet } from '../../test/support/payments.ts'
import { randomHash } from '../../test/support/signed-payment.ts'
import type { Config } from '../config/config.ts'
import { silentLogger } from '../lib/logger.ts'
import { assets } from '../payments/assets.ts'
import type { Network } from '../schema/primitives.ts'
import { openDatabase } from '../store/database.ts'
import { createChannelSettlement } from './channel-settlement.ts'

function settlementOn(network: Network) {
  const clock = new HandClock()
  const head = { timeMs: clock.now() }
  const database = openDatabase({ path: ':memory:' })
  onTestFinished(() => database.close())
  const asked: string[] = []
  const chain = {
    blockTimeMs: async () => head.timeMs,
    async request(method: string) {
      asked.push(method)
      throw new Error('no more is needed here')
    },
  }
  const config = { network, seller: { channelClaimThresholdAtomic: 1n } } as unknown as Config
  const settlement = createChannelSettlement(config, {
    ...{ clock, logger: silentLogger, database, isShared: false, facilitator: undefined, wallet: testWallet() },
    ...{
      chain: chain as never,
      asset: assets[network],
      channels: () => ({}) as never,
      sender: async () => ({}) as never,
    },
  })!
  return { head, asked, settlement, signal: new AbortController().signal }
}

test('hazard 4.3: on Base a block that is older than three minutes is no reading, and no channel is offered by it', async () => {
  const { head, asked, settlement, signal } = settlementOn('eip155:8453')
  head.timeMs -= 181_000
  const { reader, trouble } = settlement.parts
  await expect(reader.channels([randomHash()])).rejects.toMatchObject({ code: 'CHAIN_UNAVAILABLE' })
  await expect(reader.channels([randomHash()])).rejects.toThrow('is 3 min old')
  expect(await trouble(signal)).toContain('it is stuck, or the clock of this node is wrong')
  expect(asked).toEqual([])
  head.timeMs += 2_000
  await expect(reader.channels([randomHash()])).rejects.toThrow('no more is needed here')
  await expect(trouble(signal)).rejects.toThrow('no more is needed here')
})

test('a devnet, which makes blocks only for transactions, may show an old one', async () => {
  const { head, settlement } = settlementOn('eip155:84532')
  head.timeMs -= 24 * 60 * 60_000
  await expect(settlement.parts.reader.channels([randomHash()])).rejects.toThrow('no more is needed here')
})
