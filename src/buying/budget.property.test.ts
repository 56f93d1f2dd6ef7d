/** No sum of what is signed ever exceeds its limit, however many buy at once, whatever is given back, over restarts. */
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { agentId, randomHex, requirements, signed } from '../../test/support/payments.ts'
import { testBudget } from '../../test/support/test-budget.ts'
import { MarketError } from '../listings/market-error.ts'
import { openDatabase } from '../store/database.ts'
import { createPurchases, type Order, type Reservation } from '../store/purchases.ts'
import type { Standing } from '../store/reserve.ts'
import { createTokenStore, type StoredToken } from '../store/tokens.ts'

const PURCHASES = 300
const rules = {
  perCall: 90n,
  perDay: 1_500n,
  perMonth: 2_200n,
  perSeller: 700n,
  autoApproveBelow: 80n,
  deny: ['denied'],
}
const tokens: Record<string, Pick<StoredToken, 'scope' | 'budget' | 'perDay'>> = {
  spender: { scope: 'spend', budget: 400n, perDay: 250n },
  daily: { scope: 'spend', budget: undefined, perDay: 300n },
  looker: { scope: 'execute', budget: undefined, perDay: undefined },
}

let dir: string
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'stoa-budget-'))
})
afterAll(() => rm(dir, { recursive: true, force: true }))

const wanted = fc.record({
  amount: fc.bigInt({ min: 1n, max: 100n }),
  sellerId: fc.constantFrom('a', 'b', 'c', 'denied'),
  tokenId: fc.constantFrom(undefined, 'spender', 'daily', 'looker', 'revoked'),
  /** What becomes of it later. */
  fate: fc.constantFrom('spent', 'released', 'open', 'approved'),
})
type Wanted = typeof wanted extends fc.Arbitrary<infer T> ? T : never
const { envelope } = signed(Date.UTC(2026, 0, 1))

function place({ amount, sellerId, tokenId }: Wanted, now: number): [Order, Reservation] {
  const id = randomUUID()
  const blank = { task: 'x', output: undefined, error: undefined, correlationId: 'c', createdAt: now, updatedAt: now }
  const asked = requirements({ amount })
  const payload = structuredClone(envelope.payload!)
  payload.authorization.nonce = randomHex()
  return [
    { id, agentId, sellerId, price: amount, status: 'executing', tokenId, ...blank },
    {
      ...{ paymentId: randomHex(), orderId: id, agentId, sellerId, requirements: asked, amount },
      ...{ envelope: { ...envelope, payload }, validBeforeSeconds: 1 },
    },
  ]
}

const APPROVE = `
  INSERT INTO approvals (id, order_id, agent_id, agent_name, seller_id, amount, reason, status, created_at, expires_at)
  VALUES (?, ?, 'a', 'a', 's', ?, 'r', 'approved', 0, 0)`

async function addTokens(database: ReturnType<typeof openDatabase>): Promise<void> {
  const store = createTokenStore(database)
  for (const [id, token] of Object.entries(tokens)) {
    const hash = new Uint8Array(32)
    await store.add({ id, name: id, hash, createdAt: 0, expiresAt: undefined, revokedAt: undefined, ...token }, 9)
  }
}

/** Every sum, added up from the signatures themselves. */
function sums(database: ReturnType<typeof openDatabase>) {
  const group = (by: string) =>
    database
      .prepare(`
        SELECT ${by} AS name, sum(a.amount) AS sum FROM authorizations a JOIN orders o ON o.no = a.order_no
        WHERE a.state <> 'released' GROUP BY 1`)
      .all() as { name: string | null; sum: number }[]
  return {
    day: group('a.day'),
    month: group('substr(a.day, 1, 7)'),
    seller: group(`a.day || ' ' || a.seller_id`),
    tokenDay: group(`a.day || ' ' || o.token_id`),
    token: group('o.token_id'),
  }
}

test('D33 hundreds of purchases at once never exceed a limit, over days and restarts', async () => {
  let round = 0
  const bought = { reserved: 0, refused: 0 }
  await fc.assert(
    fc.asyncProperty(fc.array(wanted, { minLength: PURCHASES, maxLength: PURCHASES }), async (purchases) => {
      const path = join(dir, `${round++}.db`)
      const clock = new HandClock(Date.UTC(2026, 0, 30, 12))
      // Three days, the last in another month; each begins with the process started anew.
      for (const [turn, batch] of [0, 1, 2].map(
        (part) => [part, purchases.slice(part * 100, part * 100 + 100)] as const,
      )) {
        const database = openDatabase({ path })
        const ledger = createPurchases(database)
        if (turn === 0) await addTokens(database)
        const budget = testBudget(rules, { clock, purchases: ledger })
        await Promise.all(
          batch.map(async (one) => {
            const [order, reservation] = place(one, clock.now())
            if (one.fate === 'approved') {
              database.run(APPROVE, order.id, order.id, one.amount)
            }
            const limits = (standing: Standing) => budget.limitsFor(order, reservation, standing)
            const approve = (standing: Standing) => {
              if (budget.approvalFor(reservation, standing) !== undefined)
                throw new MarketError('APPROVAL_REQUIRED', 'no')
            }
            const asked = { day: budget.day(), limits, approve }
            const outcome = await ledger.reserve(order, reservation, asked).catch((error) => {
              if (error instanceof MarketError) return error.code
              throw error
            })
            if (outcome !== 'reserved') {
              bought.refused++
              return
            }
            bought.reserved++
            expect([one.sellerId, one.tokenId]).not.toEqual(expect.arrayContaining(['denied']))
            expect([undefined, 'spender', 'daily']).toContain(one.tokenId)
            expect(one.amount <= 90n && (one.amount < 80n || one.fate === 'approved')).toBe(true)
            if (one.fate === 'released') await ledger.resolve(reservation, 'released', undefined, clock.now())
            if (one.fate === 'spent')
              await ledger.finish({ ...order, status: 'completed', output: 'x' }, { ...reservation, txHash: undefined })
          }),
        )
        const { day, month, seller, tokenDay, token } = sums(database)
        for (const { name, sum } of day) {
          expect(sum).toBeLessThanOrEqual(Number(rules.perDay))
          expect(await ledger.spentOn(name!)).toBe(BigInt(sum))
        }
        for (const { name, sum } of month) {
          expect(sum).toBeLessThanOrEqual(Number(rules.perMonth))
          expect(await ledger.spentOn(name!)).toBe(BigInt(sum))
        }
        for (const { sum } of seller) expect(sum).toBeLessThanOrEqual(Number(rules.perSeller))
        for (const { name, sum } of tokenDay) {
          if (name !== null) expect(sum).toBeLessThanOrEqual(Number(tokens[name.split(' ')[1]!]!.perDay))
        }
        for (const { name, sum } of token) if (name === 'spender') expect(sum).toBeLessThanOrEqual(400)
        await database.close()
        clock.advance(24 * 60 * 60 * 1000)
        expect(turn).toBeLessThan(3)
      }
    }),
    { numRuns: 4 },
  )
  // Otherwise nothing was tried.
  expect(bought.reserved).toBeGreaterThan(100)
  expect(bought.refused).toBeGreaterThan(100)
})
