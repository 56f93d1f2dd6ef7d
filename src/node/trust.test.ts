import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { testWallet } from '../../test/support/payments.ts'
import type { Chain } from '../chain/chain.ts'
import type { Config } from '../config/config.ts'
import { Feed } from '../lib/feed.ts'
import { silentLogger } from '../lib/logger.ts'
import { Unrun } from '../payments/unrun.ts'
import { openDatabase } from '../store/database.ts'
import { createMeasureStore } from '../store/measures.ts'
import { createPayments } from '../store/payments.ts'
import { createTransactions } from '../store/transactions.ts'
import { createMeasures } from '../trust/measures.ts'
import { createTrust } from './trust.ts'

test('D36: any web page may ask for reputation, and none keeps the chain busy for all others', async () => {
  const database = openDatabase({ path: ':memory:' })
  const clock = new HandClock()
  const gate = Promise.withResolvers<never>()
  // It may fail before anybody has asked: the registries load with the first question.
  gate.promise.catch(() => {})
  const chain = { network: 'eip155:84532', request: () => gate.promise } as unknown as Chain
  const config = { publicUrl: undefined, buyer: {} } as Config
  const payments = createPayments(database)
  const selling = {
    agents: { relist: async () => {} },
    registry: { get: () => undefined },
    x402: { payments, running: new Map(), unrun: new Unrun({ clock, logger: silentLogger, payments }) },
  }
  const { api } = createTrust(config, {
    selling,
    ...{ database, clock, chain, wallet: testWallet(), transactions: createTransactions(database) },
    measures: createMeasures({ store: createMeasureStore(database), clock, logger: silentLogger }),
    catalog: { resolve: () => undefined },
    feed: new Feed({ life: 'a' }),
    logger: silentLogger,
    namesOf: () => undefined,
    x402Receipts: { give: () => Promise.reject(new Error('none')), ask: () => Promise.reject(new Error('none')) },
  })
  const asked = Array.from({ length: 9 }, (_, token) => api.reputation.read(BigInt(token)))
  const outcomes = Promise.allSettled(asked)
  await expect(asked[8]).rejects.toMatchObject({ code: 'OVERLOADED' })
  gate.reject(new Error('the chain is down'))
  expect((await outcomes).map(({ status }) => status)).toEqual(Array(9).fill('rejected'))
  await expect(api.reputation.read(0n)).rejects.toThrow('the chain is down')
})
