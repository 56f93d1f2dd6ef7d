/* By hand: the steps are SQL, and `database.ts` runs them in one loop. A library would bring files or a query builder. */

import { earlyMigrations } from './early-migrations.ts'
import { middleMigrations } from './middle-migrations.ts'

/**
 * The schema of the store, as numbered steps: step n migrates a database from version n to n + 1.
 *
 * Never edit a step that has shipped: add a new step at the end. Times are Unix ms unless the name ends in `_s`.
 * Amounts are atomic units.
 */
export const migrations: readonly string[] = [
  ...earlyMigrations,
  ...middleMigrations,
  `
  -- A2A tasks are asked for by their id, in words that PostgreSQL has too.
  DROP INDEX exchanges_of_a2a;
  CREATE INDEX exchanges_of_a2a ON exchanges (correlation_id) WHERE substr(caller_id, 1, 4) = 'a2a:';
  `,
  `
  -- Rises with each change of a workflow, so that of two processes that advance it one does.
  ALTER TABLE workflows ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
  `,
  `
  -- The process that has the file, and the process that does each piece of work: see ownership.ts. NULL: none.
  CREATE TABLE processes (id TEXT PRIMARY KEY, ended_at INTEGER) WITHOUT ROWID;
  -- What one process does for all.
  CREATE TABLE roles (name TEXT PRIMARY KEY, owner TEXT NOT NULL) WITHOUT ROWID;
  ALTER TABLE payments ADD COLUMN owner TEXT;
  ALTER TABLE orders ADD COLUMN owner TEXT;
  ALTER TABLE workflows ADD COLUMN owner TEXT;
  `,
  `
  -- Work that has not settled: sums by payer, and of all under ''. Payments with a number in \`counted\` are in the sums: see exposed.ts.
  CREATE TABLE exposure (
    payer TEXT PRIMARY KEY,
    amount INTEGER NOT NULL,
    payments INTEGER NOT NULL,
    losses INTEGER NOT NULL
  ) WITHOUT ROWID;
  ALTER TABLE payments ADD COLUMN counted INTEGER NOT NULL DEFAULT 0;
  CREATE INDEX payments_miscounted ON payments (no) WHERE
    ((counted > 0 AND NOT (state IN ('authorized', 'owed') AND (task IS NULL OR exchange_id IS NOT NULL)))
    OR (counted = 0 AND state IN ('authorized', 'owed') AND (task IS NULL OR exchange_id IS NOT NULL)));
  `,
  `
  -- Machines that run agents of this node. peer_id: the key that used the join token first, and the only one that may.
  CREATE TABLE workers (
    no INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    hash BLOB NOT NULL,
    peer_id TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    seen_at INTEGER,
    revoked_at INTEGER
  );
  `,
  `
  -- Work that was never paid, and payments for which nothing ran: few among many. Metrics and alarms sum up the former, and
  -- so have all that they need in the index.
  CREATE INDEX payments_lost ON payments (error, updated_at, amount, exchange_id, state)
    WHERE state = 'unsettled' AND exchange_id IS NOT NULL;
  CREATE INDEX payments_refused ON payments (no) WHERE state = 'unsettled' AND exchange_id IS NULL;
  `,
  'CREATE TABLE listing_versions (agent_id TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID', // listing-versions.ts
  `
  -- 1: the owner of a payment that settles first has it under way: see paid-runs.ts.
  ALTER TABLE payments ADD COLUMN running INTEGER NOT NULL DEFAULT 0;
  `,
  `
  -- The event that a message reports, which is queued once; and until when a process sends a message: others wait then, so
  -- that the messages of a webhook keep their order.
  ALTER TABLE webhook_deliveries ADD COLUMN event TEXT;
  ALTER TABLE webhook_deliveries ADD COLUMN leased_until INTEGER;
  CREATE UNIQUE INDEX webhook_deliveries_by_event ON webhook_deliveries (webhook_id, event);
  CREATE INDEX webhook_deliveries_leased ON webhook_deliveries (webhook_id) WHERE leased_until IS NOT NULL;
  `,
  `
  -- Receipts of one agent, which may have few of many.
  CREATE INDEX payments_receipts ON payments (agent_id) WHERE receipt IS NOT NULL;
  CREATE INDEX authorizations_receipts ON authorizations (agent_id) WHERE receipt IS NOT NULL OR receipt_note IS NOT NULL;
  `,
  `
  -- Runs of settled work that have failed, and when the last one did: what paces the next is the same at all processes.
  ALTER TABLE payments ADD COLUMN failed_runs INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE payments ADD COLUMN failed_run_at INTEGER;
  `,
  `
  -- What the buyer of this payment waits for and cannot ask for by its payment, as a digest, until its run has ended: see
  -- deferred.ts.
  ALTER TABLE payments ADD COLUMN awaited BLOB;
  CREATE INDEX payments_awaited ON payments (awaited) WHERE awaited IS NOT NULL;
  `,
  `
  -- When a process of the seller last saw that a dismissed alarm holds.
  ALTER TABLE alarm_dismissals ADD COLUMN held_at INTEGER;
  `,
  `
  -- The process that works on the task of a message, if others share the ledger: they tell its callers that it is at work.
  ALTER TABLE sent_messages ADD COLUMN owner TEXT;
  `,
  `
  -- The process that signed, and so may still send, an authorization: see senders.ts.
  ALTER TABLE authorizations ADD COLUMN sender TEXT;
  `,
  `
  -- Payment channels to this node: see seller-channels.ts. Sums have up to 128 bits, so they are decimal texts.
  CREATE TABLE seller_channels (
    id BLOB PRIMARY KEY,
    network TEXT NOT NULL,
    config TEXT NOT NULL,
    peer_id TEXT NOT NULL,
    balance TEXT NOT NULL,
    claimed TEXT NOT NULL,
    withdrawal TEXT,
    withdrawal_at_s INTEGER,
    refund_nonce TEXT NOT NULL,
    seen_at INTEGER NOT NULL,
    ceiling TEXT,
    signature BLOB,
    charged TEXT NOT NULL,
    seq INTEGER NOT NULL,
    owed_since INTEGER,
    owner TEXT,
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX seller_channels_by_peer ON seller_channels (peer_id);
  -- A call on a channel, and the number and the sum of its charge. NULL: a payment of its own, or a call without a charge.
  ALTER TABLE payments ADD COLUMN channel BLOB;
  ALTER TABLE payments ADD COLUMN channel_seq INTEGER;
  ALTER TABLE payments ADD COLUMN channel_total TEXT;
  `,
  `
  -- The last refund of a channel that this seller has signed, and its nonce.
  ALTER TABLE seller_channels ADD COLUMN signed_refund TEXT;
  ALTER TABLE seller_channels ADD COLUMN signed_refund_nonce TEXT;
  `,
  `
  -- Payment channels of this node to sellers. Sums are decimal text, since they may have 39 digits: no SQL counts with them.
  CREATE TABLE buyer_channels (
    no INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    config TEXT NOT NULL,
    seller_id TEXT NOT NULL,
    network TEXT NOT NULL,
    on_chain TEXT NOT NULL,
    mark TEXT NOT NULL,
    charged TEXT NOT NULL,
    seq INTEGER NOT NULL,
    stated_seq INTEGER NOT NULL,
    early TEXT NOT NULL,
    stopped TEXT,
    deposit TEXT,
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    owner TEXT
  );
  -- A call on a channel: the channel's number, and the number of its charge there.
  ALTER TABLE authorizations ADD COLUMN channel INTEGER;
  ALTER TABLE authorizations ADD COLUMN channel_seq INTEGER;
  CREATE INDEX authorizations_in_flight ON authorizations (channel) WHERE channel IS NOT NULL AND state = 'reserved';
  `,
  `
  -- What a task waits for that needs its caller, as JSON, if others share the ledger: the caller may answer any of them.
  ALTER TABLE sent_messages ADD COLUMN waits TEXT;
  CREATE INDEX sent_messages_waiting ON sent_messages (token_id, no) WHERE waits IS NOT NULL;
  `,
  `
  -- The door by which a payment came (NULL: libp2p, or A2A if its peer is named so), and a digest of the request that it
  -- pays for: the same payment with another request buys nothing.
  ALTER TABLE payments ADD COLUMN door TEXT;
  ALTER TABLE payments ADD COLUMN bound_to BLOB;
  `,
  `
  -- An agent of the seller of a channel. Why and how the buyer takes its money out, as JSON. When nothing was left in it.
  ALTER TABLE buyer_channels ADD COLUMN agent_id TEXT;
  ALTER TABLE buyer_channels ADD COLUMN leaving TEXT;
  ALTER TABLE buyer_channels ADD COLUMN closed_at INTEGER;
  `,
  `
  -- Of a call of a metered agent, as JSON: the prices it was bought under, what it has used, whether its output was cut.
  ALTER TABLE payments ADD COLUMN metered TEXT;
  ALTER TABLE authorizations ADD COLUMN metered TEXT;
  `,
  `
  -- What an order wants of payment channels: 'always' or 'never'. NULL: the rule of the node.
  ALTER TABLE orders ADD COLUMN channel_wish TEXT;
  `,
  `
  -- Of an order at an x402 seller over HTTP, as JSON: the request, and what its payment was signed for.
  ALTER TABLE orders ADD COLUMN web TEXT;
  `,
  `
  -- Calls on channels have no authorization: each would write to this index for nothing.
  DROP INDEX payments_by_authorization;
  CREATE UNIQUE INDEX payments_by_authorization ON payments (authorization_nonce, payer, asset, network) WHERE channel IS NULL;
  `,
  `
  -- What the buyer has put into a channel, and what the log of the chain shows to have left it, as JSON. NULL: nothing was
  -- noted yet, and what was last read of the balance was put in.
  ALTER TABLE buyer_channels ADD COLUMN moved TEXT;
  `,
  `
  -- SQLite makes a table of a list of more than two values, for each statement that writes a row: half of the time of a short
  -- one. The checks stay as strict. How: https://www.sqlite.org/lang_altertable.html#otheralter
  PRAGMA writable_schema = ON;
  ${comparing('payments', 'state', ['authorized', 'owed', 'settled', 'voided', 'unsettled'])}
  ${comparing('orders', 'status', ['pending', 'executing', 'completed', 'failed', 'cancelled'])}
  ${comparing('authorizations', 'state', ['reserved', 'spent', 'released'])}
  PRAGMA writable_schema = RESET;
  `,
  `
  -- Runs that their callers canceled: among those with an error, they alone do not count as failed.
  CREATE INDEX exchanges_canceled ON exchanges (id) WHERE error = 'the task was canceled';
  `,
  `
  -- The tokens whose calls have asked for deposits into a channel, as JSON: they lock no more than they may spend. NULL: none.
  ALTER TABLE buyer_channels ADD COLUMN tokens TEXT;
  `,
]

/** Writes the check of a column with one comparison for each value, instead of a list. */
function comparing(table: string, column: string, values: readonly string[]): string {
  const list = `${column} IN (${values.map((value) => `'${value}'`).join(', ')})`
  const comparisons = values.map((value) => `${column} = '${value}'`).join(' OR ')
  const text = (sql: string) => `'${sql.replaceAll("'", "''")}'`
  return `UPDATE sqlite_schema SET sql = replace(sql, ${text(`CHECK (${list})`)}, ${text(`CHECK (${comparisons})`)})
    WHERE type = 'table' AND name = '${table}';`
}
