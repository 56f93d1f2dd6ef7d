/** The first step of the schema. See migrations.ts. */
export const firstMigration = `
  -- What this node has been paid, or is owed (seller). The numbers rise: what is changed together lies together.
  CREATE TABLE payments (
    no INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (state IN ('authorized', 'owed', 'settled', 'voided', 'unsettled')),
    agent_id TEXT NOT NULL,
    peer_id TEXT NOT NULL,
    correlation_id TEXT NOT NULL,
    network TEXT NOT NULL,
    asset TEXT NOT NULL COLLATE NOCASE,
    pay_to TEXT NOT NULL,
    amount INTEGER NOT NULL,
    max_timeout_s INTEGER NOT NULL,
    payer TEXT NOT NULL COLLATE NOCASE,
    authorization_nonce BLOB NOT NULL,
    valid_after_s INTEGER NOT NULL,
    valid_before_s INTEGER NOT NULL,
    signature BLOB NOT NULL,
    challenge_nonce BLOB,
    task TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_attempt_at INTEGER,
    unclear INTEGER NOT NULL DEFAULT 0,
    tx_hash BLOB,
    error TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
  );
  -- What EIP-3009 lets be spent once.
  CREATE UNIQUE INDEX payments_by_authorization ON payments (authorization_nonce, payer, asset, network);
  -- As a rule the challenge is the authorization's nonce (D30), and found by the index above.
  CREATE INDEX payments_by_challenge ON payments (challenge_nonce) WHERE challenge_nonce <> authorization_nonce;
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
    payment_no INTEGER REFERENCES payments (no),
    created_at INTEGER NOT NULL,
    duration_ms INTEGER NOT NULL
  );
  CREATE INDEX exchanges_by_session ON exchanges (agent_id, caller_id, id);
  CREATE INDEX exchanges_by_age ON exchanges (created_at);
  CREATE UNIQUE INDEX exchanges_by_payment ON exchanges (payment_no) WHERE payment_no IS NOT NULL;

  -- What this node has bought (buyer).
  CREATE TABLE orders (
    no INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
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
    order_no INTEGER PRIMARY KEY REFERENCES orders (no),
    payment_id BLOB NOT NULL,
    agent_id TEXT NOT NULL,
    seller_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'spent', 'released')),
    network TEXT NOT NULL,
    asset TEXT NOT NULL,
    pay_to TEXT NOT NULL,
    amount INTEGER NOT NULL,
    max_timeout_s INTEGER NOT NULL,
    payer TEXT NOT NULL,
    authorization_nonce BLOB NOT NULL,
    valid_after_s INTEGER NOT NULL,
    valid_before_s INTEGER NOT NULL,
    signature BLOB NOT NULL,
    -- The seller's challenge; NULL for a preemptive payment.
    challenge_nonce BLOB,
    day TEXT NOT NULL,
    tx_hash BLOB,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
  );
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
`
