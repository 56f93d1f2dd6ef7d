import type { Engine, Exec } from './engines.ts'

/** The ledger of a node that sells every 3 s, and buys once for every four sales. */
const EVERY_MS = 3_000
const SALES_PER_PURCHASE = 4
const FIRST_AT = Date.parse('2026-01-01')
/** A node keeps exchanges for 30 days. */
const EXCHANGES_KEPT = (30 * 24 * 60 * 60 * 1000) / EVERY_MS
/** Payments of the last hour are looked up again. The last of all are under way. */
const LOOKED_AT = (60 * 60 * 1000) / EVERY_MS
const OPEN = 20
const RUNNING = 5
const ROWS_AT_ONCE = 250_000
const DAY_MS = 24 * 60 * 60 * 1000

export const NETWORK = 'eip155:84532'
const ASSET = '0x036CbD53842c5426634e7929541eC2318f3dCF7e'
const agent = `'${'a'.repeat(50)}' || CAST(10 + i % 20 AS TEXT)`
/** 2,000 peers, each with its account. */
const other = 'CAST(100000 + (i * 7919) % 2000 AS TEXT)'
const peer = `'12D3KooW${'p'.repeat(38)}' || ${other}`
const account = `'0x${'c'.repeat(34)}' || ${other}`
const caller = `'did:peer:0z6Mk${'d'.repeat(38)}' || ${other}`
const text = (letter: string, length: number) => `'${letter.repeat(length)}'`
/** The `i`th thing that happened. */
const at = (i = 'i') => `${FIRST_AT} + ${i} * ${EVERY_MS}`
const timeOf = (payment: number) => FIRST_AT + payment * EVERY_MS

/** The time at which a ledger of so many payments is looked at: a second after the last. */
export const nowOf = (payments: number) => timeOf(payments) + 1_000
export const ordersOf = (payments: number) => Math.floor(payments / SALES_PER_PURCHASE)

/** Adds payments, exchanges, orders and authorizations to a ledger that has `from` payments, until it has `to`. */
export async function fill(engine: Engine, from: number, to: number): Promise<void> {
  await engine.fill(async (exec) => {
    const indices = await exec.rows<{ name: string; sql: string }>(exec.indices)
    for (const { name } of indices) await exec.run(`DROP INDEX ${name}`)
    await forget(exec, from)
    await settle(exec)
    const orders = ordersOf(to)
    await inParts(ordersOf(from), orders, (first, last) => exec.run(putOrders(engine, first, last)))
    await inParts(ordersOf(from), orders, (first, last) => exec.run(putAuthorizations(engine, [first, last], orders)))
    await inParts(from, to, (first, last) => exec.run(putPayments(engine, [first, last], to)))
    await inParts(Math.max(0, to - EXCHANGES_KEPT), to, (first, last) => exec.run(putExchanges(engine, first, last)))
    await exec.run(spending(to))
    for (const { sql } of indices) await exec.run(sql)
  })
}

/** Deletes what was sold and bought to measure it, and the exchanges: a node deletes those that are 30 days old. */
async function forget(exec: Exec, from: number): Promise<void> {
  await exec.run('DELETE FROM exchanges')
  await exec.run(`DELETE FROM payments WHERE no > ${from}`)
  await exec.run(`DELETE FROM authorizations WHERE order_no > ${ordersOf(from)}`)
  await exec.run(`DELETE FROM orders WHERE no > ${ordersOf(from)}`)
}

/** Ends what was under way when the ledger was smaller. */
async function settle(exec: Exec): Promise<void> {
  await exec.run(`UPDATE payments SET state = 'settled', look_at = NULL, next_attempt_at = NULL
    WHERE state IN ('authorized', 'owed') OR look_at IS NOT NULL`)
  await exec.run(`UPDATE authorizations SET state = 'spent', confirmed_at = updated_at, look_at = NULL
    WHERE state = 'reserved' OR confirmed_at IS NULL OR look_at IS NOT NULL`)
  await exec.run(`UPDATE orders SET status = 'completed' WHERE status IN ('pending', 'executing')`)
}

async function inParts(after: number, to: number, put: (first: number, last: number) => Promise<void>): Promise<void> {
  for (let first = after + 1; first <= to; first += ROWS_AT_ONCE)
    await put(first, Math.min(to, first + ROWS_AT_ONCE - 1))
}

/** 96 of 100 are settled, 2 void, 1 lost, 1 refused; the last are owed or run. */
function putPayments(
  { numbers, bytes, filler, text: id }: Engine,
  [first, last]: [number, number],
  total: number,
): string {
  const state = `CASE WHEN i > ${total - RUNNING} THEN 'authorized' WHEN i > ${total - OPEN} THEN 'owed'
    WHEN i % 50 = 0 THEN 'voided' WHEN i % 50 = 1 THEN 'unsettled' ELSE 'settled' END`
  return `INSERT INTO payments
      (no, id, state, agent_id, peer_id, correlation_id, network, asset, pay_to, amount, max_timeout_s, payer,
       authorization_nonce, valid_after_s, valid_before_s, signature, challenge_nonce, task, attempts, next_attempt_at,
       tx_hash, error, created_at, updated_at, receipt, exchange_id, look_at, deferred, blamed, refund_tx)
    SELECT i, ${bytes('id', 32)}, state, ${agent}, ${peer}, ${id('c')}, '${NETWORK}', '${ASSET}', ${text('e', 42)},
      1000 + i % 9000, 420, ${account}, ${bytes('nonce', 32)}, (${at()}) / 1000, (${at()}) / 1000 + 420,
      ${filler(65)}, ${bytes('nonce', 32)}, CASE WHEN i % 100 = 5 THEN '' END, 1,
      CASE state WHEN 'owed' THEN ${at()} END, CASE state WHEN 'settled' THEN ${filler(32)} END,
      CASE WHEN state IN ('voided', 'unsettled') THEN 'reason ' || CAST(i / 50 % 20 AS TEXT) END, ${at()}, ${at()} + 900,
      CASE WHEN state IN ('settled', 'owed') THEN ${filler(160)} END,
      CASE WHEN state <> 'authorized' AND NOT (state = 'unsettled' AND i % 100 = 51) THEN i END,
      CASE WHEN i > ${total - LOOKED_AT} AND state = 'settled' THEN ${at()} + 7200000 END,
      CASE WHEN i % 500 = 3 THEN 2 END, CASE state WHEN 'unsettled' THEN 1 END,
      CASE WHEN i % 10000 = 7 THEN ${bytes('refund', 32)} END
    FROM (SELECT i, ${state} AS state FROM ${numbers(first, last)}) AS given`
}

function putExchanges({ numbers, text: id }: Engine, first: number, last: number): string {
  return `INSERT INTO exchanges
      (id, agent_id, caller_id, correlation_id, input, output, error, payment_no, created_at, duration_ms)
    SELECT i, ${agent}, ${caller}, ${id('c')}, ${text('t', 200)}, CASE WHEN i % 50 <> 0 THEN ${text('r', 400)} END,
      CASE WHEN i % 50 = 0 THEN 'the agent failed' END, i, ${at()}, 800
    FROM ${numbers(first, last)}`
}

/** 96 of 100 are completed; the last run. One in five is a token's. */
function putOrders({ numbers, text: id }: Engine, first: number, last: number): string {
  return `INSERT INTO orders
      (no, id, agent_id, seller_id, price, status, task, output, error, correlation_id, created_at, updated_at, started_at,
       token_id, agent_name, seller_name)
    SELECT i, ${id('order')}, ${agent}, ${peer}, 10000, CASE WHEN i % 50 = 0 THEN 'failed' WHEN i % 50 = 1 THEN 'cancelled'
        ELSE 'completed' END,
      ${text('t', 200)}, CASE WHEN i % 50 > 1 THEN ${text('r', 400)} END,
      CASE WHEN i % 50 < 2 THEN '{"code":"EXECUTION_FAILED","message":"no","retryable":false}' END, ${id('oc')},
      ${at(`i * ${SALES_PER_PURCHASE}`)}, ${at(`i * ${SALES_PER_PURCHASE}`)} + 900, ${at(`i * ${SALES_PER_PURCHASE}`)},
      CASE WHEN i % 5 = 0 THEN 'token-' || CAST(i % 3 AS TEXT) END, 'Echo', 'A seller'
    FROM ${numbers(first, last)}`
}

function putAuthorizations({ numbers, bytes, filler }: Engine, [first, last]: [number, number], total: number): string {
  const time = at(`i * ${SALES_PER_PURCHASE}`)
  const state = `CASE WHEN i > ${total - RUNNING} THEN 'reserved' WHEN i % 50 = 0 THEN 'released' ELSE 'spent' END`
  return `INSERT INTO authorizations
      (order_no, payment_id, agent_id, seller_id, state, network, asset, pay_to, amount, max_timeout_s, payer,
       authorization_nonce, valid_after_s, valid_before_s, signature, challenge_nonce, day, tx_hash, created_at, updated_at,
       receipt, confirmed_at, look_at)
    SELECT i, ${bytes('bought', 32)}, ${agent}, ${peer}, state, '${NETWORK}', '${ASSET}', ${text('e', 42)}, 1000 + i % 9000,
      420, ${text('b', 42)}, ${bytes('signed', 32)}, (${time}) / 1000, (${time}) / 1000 + 420, ${filler(65)},
      ${bytes('signed', 32)}, '2026-01-01', CASE state WHEN 'spent' THEN ${filler(32)} END, ${time}, ${time} + 900,
      CASE state WHEN 'spent' THEN ${filler(160)} END,
      CASE WHEN state = 'spent' AND i <= ${total - OPEN} THEN ${time} + 900 END,
      CASE WHEN state = 'spent' AND i BETWEEN ${total - LOOKED_AT} AND ${total - OPEN} THEN ${time} + 7200000 END
    FROM (SELECT i, ${state} AS state FROM ${numbers(first, last)}) AS given`
}

/** The sums of each day, as the budget keeps them. */
function spending(total: number): string {
  const days = Array.from(
    { length: Math.ceil((total * EVERY_MS) / DAY_MS) + 1 },
    (_, day) => new Date(FIRST_AT + day * DAY_MS),
  )
  const rows = days.map((day) => `('${day.toISOString().slice(0, 10)}', '', 1000000)`)
  return `INSERT INTO spending (period, scope, amount) VALUES ${rows.join(', ')} ON CONFLICT DO NOTHING`
}
