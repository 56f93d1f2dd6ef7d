import type { UnixMs } from '../lib/clock.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Database } from './database.ts'
import { toBytes, toHex } from './hex.ts'

/**
 * A transaction of this node's own account, stored before it is sent. It is resent unchanged and never signed again.
 */
export type StoredTransaction = {
  /** What the transaction is for. One transaction per purpose at a time. */
  purpose: string
  network: string
  account: Hex
  accountNonce: number
  to: Hex
  data: Hex
  /** In wei. */
  value: bigint
  raw: Hex
  hash: Hex
  /** The key of its request (D38). */
  key: string | undefined
}
type TransactionEnd = 'mined' | 'failed' | 'lost'
type EndedTransaction = StoredTransaction & { state: 'sent' | TransactionEnd }
export type AgentToken = { agentId: string; network: string; tokenId: string }

/** The purpose of a transaction that refunds a payment. */
export function refundPurpose(paymentId: Hex): string {
  return `refund ${paymentId}`
}

export interface Transactions {
  /** Stores a transaction before it is sent. Durable when it resolves. */
  add(transaction: StoredTransaction, now: UnixMs): Promise<void>
  /** Transactions whose end is not known, oldest first. */
  open(network: string, account: Hex): StoredTransaction[]
  /** Transactions of one request, newest first: the first one and its replacements. */
  withKey(network: string, account: Hex, key: string): EndedTransaction[]
  /** Ended transactions with this purpose. */
  ended(network: string, account: Hex, purpose: string): { hash: Hex; state: TransactionEnd }[]
  /** The mined transaction with the same purpose and account nonce: the one that replaced this transaction. */
  minedInstead(transaction: StoredTransaction): StoredTransaction | undefined
  /** The account nonce after the last one known to be mined. */
  nextNonce(network: string, account: Hex): number
  /** Stores the end of a transaction together with the token it minted. Durable when it resolves. */
  end(hash: Hex, end: TransactionEnd, now: UnixMs, token?: AgentToken): Promise<void>
  /** The token id of an own agent on a network (ERC-8004). */
  tokenOf(agentId: string, network: string): string | undefined
}

type TransactionRow = {
  purpose: string
  network: string
  account: Uint8Array
  account_nonce: number
  call_to: Uint8Array
  call_data: Uint8Array
  call_value: string
  raw: Uint8Array
  hash: Uint8Array
  idempotency_key: string | null
  state: EndedTransaction['state']
}

const OPEN = `SELECT * FROM chain_transactions WHERE state = 'sent' AND network = ? AND account = ? ORDER BY no`
const WITH_KEY = `
  SELECT * FROM chain_transactions WHERE idempotency_key = ? AND network = ? AND account = ? ORDER BY no DESC`
const ENDED = `
  SELECT hash, state FROM chain_transactions
  WHERE purpose = ? AND state <> 'sent' AND network = ? AND account = ? ORDER BY no`
const MINED = `
  SELECT * FROM chain_transactions
  WHERE state = 'mined' AND purpose = ? AND account_nonce = ? AND network = ? AND account = ?`
const NEXT_NONCE = `
  SELECT coalesce(max(account_nonce) + 1, 0) AS next FROM chain_transactions
  WHERE state IN ('mined', 'failed') AND network = ? AND account = ?`

export function createTransactions(database: Database): Transactions {
  /** Cached, because every served call reads it. */
  let tokens: Map<string, string> | undefined
  const keyOf = (agentId: string, network: string) => `${network} ${agentId}`
  const all = () => {
    tokens ??= new Map(
      database
        .all<Record<string, string>>('SELECT agent_id, network, token_id FROM agent_tokens')
        .map(({ agent_id, network, token_id }) => [keyOf(agent_id!, network!), token_id!]),
    )
    return tokens
  }

  return {
    add: ({ purpose, network, account, accountNonce, to, data, value, raw, hash, key }, now) =>
      database.write(() => {
        database
          .prepare(`
            INSERT INTO chain_transactions
              (purpose, network, account, account_nonce, call_to, call_data, call_value, raw, hash, idempotency_key, state, created_at, updated_at)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'sent', ?, ?)`)
          .run(
            purpose,
            network,
            toBytes(account),
            accountNonce,
            toBytes(to),
            toBytes(data),
            value.toString(),
            toBytes(raw),
            toBytes(hash),
            key ?? null,
            now,
            now,
          )
      }),
    open: (network, account) =>
      database.all<TransactionRow>(OPEN, network, toBytes(account)).map((row) => toTransaction(row)),
    withKey: (network, account, key) =>
      database
        .all<TransactionRow>(WITH_KEY, key, network, toBytes(account))
        .map((row) => ({ ...toTransaction(row), state: row.state })),
    ended: (network, account, purpose) =>
      database
        .all<{ hash: Uint8Array; state: TransactionEnd }>(ENDED, purpose, network, toBytes(account))
        .map(({ hash, state }) => ({ hash: toHex(hash), state })),
    minedInstead({ network, account, accountNonce, purpose }) {
      const row = database.one<TransactionRow>(MINED, purpose, accountNonce, network, toBytes(account))
      return row && toTransaction(row)
    },
    nextNonce: (network, account) => database.one<{ next: number }>(NEXT_NONCE, network, toBytes(account))!.next,
    end: (hash, end, now, token) =>
      database.write(() => {
        database.run('UPDATE chain_transactions SET state = ?, updated_at = ? WHERE hash = ?', end, now, toBytes(hash))
        if (token === undefined) return
        database
          .prepare(`
            INSERT INTO agent_tokens (agent_id, network, token_id, tx_hash, created_at) VALUES (?, ?, ?, ?, ?)
            ON CONFLICT DO NOTHING`)
          .run(token.agentId, token.network, token.tokenId, toBytes(hash), now)
        tokens = undefined
      }),
    tokenOf: (agentId, network) => all().get(keyOf(agentId, network)),
  }
}

function toTransaction(row: TransactionRow): StoredTransaction {
  return {
    purpose: row.purpose,
    network: row.network,
    account: toHex(row.account),
    accountNonce: row.account_nonce,
    to: toHex(row.call_to),
    data: toHex(row.call_data),
    value: BigInt(row.call_value),
    raw: toHex(row.raw),
    hash: toHex(row.hash),
    key: row.idempotency_key ?? undefined,
  }
}
