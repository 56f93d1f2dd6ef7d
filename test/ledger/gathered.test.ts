/** Many reservations in one change, on a database that is away, or a network that breaks. */
import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { createPurchases, type Order, type Reservation } from '../../src/store/purchases.ts'
import { one } from '../../src/store/query.ts'
import { StoreError } from '../../src/store/store-error.ts'
import { onBothEngines } from '../support/ledgers.ts'
import { agentId, randomHex, requirements, signed } from '../support/payments.ts'
import { startPostgresProxy } from '../support/postgres-proxy.ts'
import { createTestDatabase, testPostgres } from '../support/test-postgres.ts'

const now = Date.UTC(2026, 0, 31, 12)
const day = '2026-01-31'
const COUNT = 20
const { envelope } = signed(now)

type Place = { order: Order; reservation: Reservation }

function place(): Place {
  const [id, paymentId, correlationId] = [randomUUID(), randomHex(), randomUUID()]
  const blank = { task: 'x', output: undefined, error: undefined, createdAt: now, updatedAt: now }
  const parties = { agentId, sellerId: 'a' }
  return {
    order: { id, ...parties, price: 100n, status: 'executing', tokenId: undefined, correlationId, ...blank },
    reservation: {
      ...{ paymentId, orderId: id, ...parties, amount: 1n, validBeforeSeconds: 1 },
      ...{ requirements: requirements({ amount: 1n }), envelope },
    },
  }
}

/** Asks for all in one turn. */
function reserveAll(database: LedgerDatabase, places: readonly Place[]) {
  const purchases = createPurchases(database)
  return Promise.allSettled(
    places.map(({ order, reservation }) => purchases.reserve(order, reservation, { day, limits: () => ({}) })),
  )
}

const reserved = Array.from({ length: COUNT }, () => ({ status: 'fulfilled', value: 'reserved' }))

async function made(database: LedgerDatabase) {
  const { n } = (await database.query(one<{ n: number }>('SELECT count(*) AS n FROM authorizations')))!
  return { authorizations: Number(n), spent: await createPurchases(database).spentOn(day) }
}

onBothEngines((open) => {
  test.each([
    ['STORE_AWAY', false],
    ['STORE_IN_USE', false],
    ['STORE_WRITE_FAILED', false],
    ['STORE_IN_DOUBT', false],
    ['STORE_IN_DOUBT', true],
  ] as const)(
    'after %s all callers are told so at once, and who asks again reserves once (written: %s)',
    async (code, isWritten) => {
      const database = await open()
      let commits = 0
      const failing: LedgerDatabase = {
        ...database,
        async commit(...change) {
          commits += 1
          if (isWritten) await database.commit(...change)
          throw new StoreError(code, 'the database is away')
        },
      }
      const places = Array.from({ length: COUNT }, place)
      const outcomes = await reserveAll(failing, places)
      expect(outcomes).toEqual(
        Array.from({ length: COUNT }, () => ({ status: 'rejected', reason: expect.objectContaining({ code }) })),
      )
      expect(commits).toBe(1)
      expect(await made(database)).toEqual(
        isWritten ? { authorizations: COUNT, spent: BigInt(COUNT) } : { authorizations: 0, spent: 0n },
      )
      for (const times of [1, 2]) {
        expect([times, await reserveAll(database, places)]).toEqual([times, reserved])
        expect(await made(database)).toEqual({ authorizations: COUNT, spent: BigInt(COUNT) })
      }
      // By itself, too: what is written is seen, and not written again.
      for (const each of places) expect(await reserveAll(database, [each])).toEqual([reserved[0]])
      expect(await made(database)).toEqual({ authorizations: COUNT, spent: BigInt(COUNT) })
    },
  )
})

test('what many ask for at once is reserved where each long change breaks its connection', async () => {
  const { ledger, proxy } = await openBehindProxy()
  let [statements, cuts] = [0, 0]
  proxy.onMessage(({ from, type }) => {
    if (from === 'server') return 'pass'
    statements = type === 'S' || type === '' ? 0 : statements + (type === 'E' ? 1 : 0)
    if (statements <= COUNT) return 'pass'
    statements = 0
    cuts += 1
    return 'cut'
  })
  expect(await reserveAll(ledger, Array.from({ length: COUNT }, place))).toEqual(reserved)
  expect(cuts).toBeGreaterThan(0)
  proxy.onMessage(() => 'pass')
  expect(await made(ledger)).toEqual({ authorizations: COUNT, spent: BigInt(COUNT) })
})

test('while the database is away, a caller among many waits no longer than a caller alone', async () => {
  const { ledger, proxy, commits } = await openBehindProxy({ waitMs: 300 })
  proxy.onMessage(() => 'cut')
  proxy.cut()
  const outcomes = await reserveAll(ledger, Array.from({ length: COUNT }, place))
  expect(outcomes.map((outcome) => outcome.status === 'rejected' && outcome.reason.code)).toEqual(
    Array.from({ length: COUNT }, () => 'STORE_AWAY'),
  )
  expect(commits()).toBe(1)
})

async function openBehindProxy(times: { waitMs?: number } = {}) {
  const [database, target] = await Promise.all([createTestDatabase(), testPostgres()])
  const proxy = await startPostgresProxy(target)
  const opened = await openPostgres({ address: database.address(proxy.port), ...times })
  onTestFinished(async () => {
    proxy.onMessage(() => 'pass')
    proxy.cut()
    await opened.close()
    await proxy.close()
    await database.drop()
  })
  let count = 0
  const ledger: LedgerDatabase = {
    ...opened,
    commit: (...change) => {
      count += 1
      return opened.commit(...change)
    },
  }
  return { ledger, proxy, commits: () => count }
}
