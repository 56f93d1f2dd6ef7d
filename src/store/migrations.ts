/**
 * The schema of the store, as numbered steps: step n takes a database from version n to n + 1.
 *
 * A step that has shipped is never edited; a change is a new step at the end. Times are Unix ms unless the name ends
 * in `_s`; amounts are atomic units.
 */
export const migrations: readonly string[] = [
  `
  -- What this node has been paid, or is owed (seller).
  CREATE TABLE payments (
    id TEXT PRIMARY KEY,
    replay_key TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (state IN ('authorized', 'owed', 'settled', 'voided', 'unsettled')),
    agent_id TEXT NOT NULL,
    peer_id TEXT NOT NULL,
    correlation_id TEXT NOT NULL,
    challenge_nonce TEXT,
    requirements TEXT NOT NULL,
    signed TEXT NOT NULL,
    payer TEXT NOT NULL,
    amount INTEGER NOT NULL,
    valid_before_s INTEGER NOT NULL,
    task TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_attempt_at INTEGER,
    unclear INTEGER NOT NULL DEFAULT 0,
    tx_hash TEXT,
    error TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE UNIQUE INDEX payments_by_challenge ON payments (challenge_nonce) WHERE challenge_nonce IS NOT NULL;
  CREATE INDEX payments_due ON payments (next_attempt_at) WHERE state = 'owed';
  CREATE INDEX payments_unsettled ON payments (created_at) WHERE state = 'unsettled';
  CREATE INDEX payments_running ON payments (created_at) WHERE state = 'authorized';

  -- What was asked of this node's agents and what they answered (seller). Paid results are kept here too (D32).
  CREATE TABLE exchanges (
    id INTEGER PRIMARY KEY,
    agent_id TEXT NOT NULL,
    caller_id TEXT NOT NULL,
    correlation_id TEXT NOT NULL,
    input TEXT NOT NULL,
    output TEXT,
    error TEXT,
    payment_id TEXT,
    created_at INTEGER NOT NULL,
    duration_ms INTEGER NOT NULL
  );
  CREATE INDEX exchanges_by_session ON exchanges (agent_id, caller_id, id);
  CREATE INDEX exchanges_by_age ON exchanges (created_at);
  CREATE UNIQUE INDEX exchanges_by_payment ON exchanges (payment_id) WHERE payment_id IS NOT NULL;

  -- What this node has bought (buyer).
  CREATE TABLE orders (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    seller_id TEXT,
    price INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'executing', 'completed', 'failed', 'cancelled')),
    task TEXT,
    output TEXT,
    error TEXT,
    correlation_id TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
  );
  CREATE INDEX orders_by_agent ON orders (agent_id, created_at);
  CREATE INDEX orders_open ON orders (created_at) WHERE status IN ('pending', 'executing');

  -- What this node has signed (buyer): stored before the signature leaves. One per order, for ever.
  CREATE TABLE authorizations (
    payment_id TEXT PRIMARY KEY,
    order_id TEXT NOT NULL UNIQUE,
    agent_id TEXT NOT NULL,
    seller_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'spent', 'released')),
    requirements TEXT NOT NULL,
    envelope TEXT NOT NULL,
    amount INTEGER NOT NULL,
    valid_before_s INTEGER NOT NULL,
    day TEXT NOT NULL,
    tx_hash TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX authorizations_open ON authorizations (valid_before_s) WHERE state = 'reserved';
  CREATE INDEX authorizations_unconfirmed ON authorizations (created_at) WHERE state = 'spent' AND tx_hash IS NULL;

  -- What counts against the daily budget: reserved and spent, per UTC day.
  CREATE TABLE budget_days (day TEXT PRIMARY KEY, amount INTEGER NOT NULL) WITHOUT ROWID;

  -- The replica of the market's listings, tombstones included.
  CREATE TABLE listings (
    id TEXT PRIMARY KEY,
    seller_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('active', 'delisted')),
    envelope BLOB NOT NULL
  );
  CREATE INDEX listings_by_expiry ON listings (expires_at);

  -- What libp2p remembers of other peers.
  CREATE TABLE peer_data (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;

  CREATE TABLE kv (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  `,
]
