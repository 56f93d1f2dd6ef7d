import type { UnixMs } from '../lib/clock.ts'
import { faultPoint } from '../lib/fault-point.ts'
import type { Hex } from '../schema/primitives.ts'
import { toBytes, toHex } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { all, one, run, together } from './query.ts'

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
  /** The number of the newest transaction, of any account. 0 if there is none. */
  last(): Promise<number>
  /**
   * Stores a transaction before it is sent, unless another one was stored after number `last`. If another one
   * was stored, the caller must look at the account again: the account nonce may be taken, or the purpose may be under way.
   *
   * @returns true if it is stored. It is durable then.
   */
  add(transaction: StoredTransaction, last: number, now: UnixMs): Promise<boolean>
  /** Transactions whose end is not known, oldest first. */
  open(network: string, account: Hex): Promise<StoredTransaction[]>
  /** Transactions of one request, newest first: the first one and its replacements. */
  withKey(network: string, account: Hex, key: string): Promise<EndedTransaction[]>
  /** Ended transactions with this purpose. */
  ended(network: string, account: Hex, purpose: string): Promise<{ hash: Hex; state: TransactionEnd }[]>
  /** Mined refunds that are noted at no payment, newest first. */
  unnotedRefunds(network: string, account: Hex): Promise<{ paymentId: Hex; hash: Hex }[]>
  /** The mined transaction with the same purpose and account nonce: the one that replaced this transaction. */
  minedInstead(transaction: StoredTransaction): Promise<StoredTransaction | undefined>
  /** Transactions that were mined or failed, from this account nonce on. */
  endedFrom(network: string, account: Hex, accountNonce: number): Promise<EndedTransaction[]>
  /**
   * Others with the account nonce of this one: those that wait, and one that failed on a chain that a reorganization has
   * dropped. Only one of all happens.
   */
  rivals(transaction: StoredTransaction): Promise<StoredTransaction[]>
  /**
   * Stores that a mined transaction waits again: a reorganization has taken it back. Those that it had replaced wait again
   * with it. One that was abandoned stays lost.
   */
  reopen(hash: Hex, now: UnixMs): Promise<void>
  /** The account nonce after the last one known to be mined. */
  nextNonce(network: string, account: Hex): Promise<number>
  /**
   * Stores what the chain shows: the transaction was mined or failed. Its token, and the end of other transactions with
   * its account nonce, are stored together with it. Durable when it resolves.
   */
  end(transaction: StoredTransaction, end: 'mined' | 'failed', now: UnixMs, token?: AgentToken): Promise<void>
  /** Stores that a transaction can never happen, unless its end is known. */
  lose(hash: Hex, now: UnixMs): Promise<void>
  /** The token id of an own agent on a network (ERC-8004). */
  tokenOf(agentId: string, network: string): Promise<string | undefined>
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
const UNNOTED_REFUNDS = `
  SELECT t.purpose, t.hash FROM chain_transactions t
  WHERE t.state = 'mined' AND t.purpose LIKE 'refund 0x%' AND t.network = ? AND t.account = ?
    AND NOT EXISTS (SELECT 1 FROM payments p WHERE p.refund_tx IS NOT NULL AND p.refund_tx = t.hash)
  ORDER BY t.no DESC LIMIT 100`
const MINED = `
  SELECT * FROM chain_transactions
  WHERE state = 'mined' AND purpose = ? AND account_nonce = ? AND network = ? AND account = ?`
const ENDED_FROM = `
  SELECT * FROM chain_transactions
  WHERE state IN ('mined', 'failed') AND network = ? AND account = ? AND account_nonce >= ? ORDER BY account_nonce, no`
const RIVALS = `
  SELECT * FROM chain_transactions
  WHERE state IN ('sent', 'failed') AND network = ? AND account = ? AND account_nonce = ? AND hash <> ? ORDER BY no`
/** With what does the same under its account nonce: of those that it took the place of, the chain may take any now. */
const REOPEN = `
  UPDATE chain_transactions SET state = 'sent', updated_at = ?1
  WHERE (hash = ?2 AND state = 'mined') OR (state = 'lost' AND EXISTS (
    SELECT 1 FROM chain_transactions t WHERE t.hash = ?2 AND t.state = 'mined' AND t.network = chain_transactions.network
      AND t.account = chain_transactions.account AND t.account_nonce = chain_transactions.account_nonce
      AND t.purpose = chain_transactions.purpose))`
const NEXT_NONCE = `
  SELECT coalesce(max(account_nonce) + 1, 0) AS next FROM chain_transactions
  WHERE state IN ('mined', 'failed') AND network = ? AND account = ?`

const LAST = 'SELECT coalesce(max(no), 0) AS last FROM chain_transactions'
/** Its number is the one after the last that was seen, so the primary key lets one of several processes win. */
const ADD = `
  INSERT INTO chain_transactions
    (no, purpose, network, account, account_nonce, call_to, call_data, call_value, raw, hash, idempotency_key, state, created_at, updated_at)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'sent', ?, ?) ON CONFLICT DO NOTHING`
const END = 'UPDATE chain_transactions SET state = ?, updated_at = ? WHERE hash = ?'
const LOSE = "UPDATE chain_transactions SET state = 'lost', updated_at = ? WHERE hash = ? AND state = 'sent'"
const LOSE_RIVALS = `
  UPDATE chain_transactions SET state = 'lost', updated_at = ?
  WHERE state IN ('sent', 'failed') AND network = ? AND account = ? AND account_nonce = ? AND hash <> ?`
const ADD_TOKEN = `
  INSERT INTO agent_tokens (agent_id, network, token_id, tx_hash, created_at) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT DO NOTHING`
const TOKEN = 'SELECT token_id FROM agent_tokens WHERE agent_id = ? AND network = ?'

export function createTransactions(database: LedgerDatabase): Transactions {
  return {
    last: async () => (await database.query(one<{ last: number }>(LAST)))!.last,
    async add({ purpose, network, account, accountNonce, to, data, value, raw, hash, key }, last, now) {
      const [from, call] = [toBytes(account), [toBytes(to), toBytes(data), value.toString()]]
      const values = [last + 1, purpose, network, from, accountNonce, ...call, toBytes(raw), toBytes(hash), key ?? null]
      const isStored = (await database.commit(run(ADD, ...values, now, now))) > 0
      faultPoint('account:transaction-stored')
      return isStored
    },
    async open(network, account) {
      return (await database.query(all<TransactionRow>(OPEN, network, toBytes(account)))).map(toTransaction)
    },
    async withKey(network, account, key) {
      const rows = await database.query(all<TransactionRow>(WITH_KEY, key, network, toBytes(account)))
      return rows.map((row) => ({ ...toTransaction(row), state: row.state }))
    },
    async ended(network, account, purpose) {
      type EndedRow = { hash: Uint8Array; state: TransactionEnd }
      const rows = await database.query(all<EndedRow>(ENDED, purpose, network, toBytes(account)))
      return rows.map(({ hash, state }) => ({ hash: toHex(hash), state }))
    },
    async unnotedRefunds(network, account) {
      const found = all<Pick<TransactionRow, 'purpose' | 'hash'>>(UNNOTED_REFUNDS, network, toBytes(account))
      const idOf = (purpose: string) => purpose.slice(refundPurpose('0x').length - 2) as Hex
      return (await database.query(found)).map(({ purpose, hash }) => ({ paymentId: idOf(purpose), hash: toHex(hash) }))
    },
    async minedInstead({ network, account, accountNonce, purpose }) {
      const mined = one<TransactionRow>(MINED, purpose, accountNonce, network, toBytes(account))
      const row = await database.query(mined)
      return row && toTransaction(row)
    },
    async endedFrom(network, account, accountNonce) {
      const ended = all<TransactionRow>(ENDED_FROM, network, toBytes(account), accountNonce)
      return (await database.query(ended)).map((row) => ({ ...toTransaction(row), state: row.state }))
    },
    async rivals({ network, account, accountNonce, hash }) {
      const found = all<TransactionRow>(RIVALS, network, toBytes(account), accountNonce, toBytes(hash))
      return (await database.query(found)).map(toTransaction)
    },
    async reopen(hash, now) {
      await database.commit(run(REOPEN, now, toBytes(hash)))
    },
    async nextNonce(network, account) {
      return (await database.query(one<{ next: number }>(NEXT_NONCE, network, toBytes(account))))!.next
    },
    async end({ network, account, accountNonce, hash }, end, now, token) {
      const id = toBytes(hash)
      const minted = token && [run(ADD_TOKEN, token.agentId, token.network, token.tokenId, id, now)]
      await database.commit(
        together(
          run(END, end, now, id),
          run(LOSE_RIVALS, now, network, toBytes(account), accountNonce, id),
          ...(minted ?? []),
        ),
      )
    },
    async lose(hash, now) {
      await database.commit(run(LOSE, now, toBytes(hash)))
    },
    async tokenOf(agentId, network) {
      return (await database.query(one<{ token_id: string }>(TOKEN, agentId, network)))?.token_id
    },
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
