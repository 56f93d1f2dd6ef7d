import { firstMigration } from './first-migration.ts'

/** The first steps of the schema: see migrations.ts. */
export const earlyMigrations: readonly string[] = [
  firstMigration,
  `
  -- What can be searched. Derived from the listings, but for first_seen: drop it and it is built anew.
  -- Numbers rise in the order of meeting, since the times a seller writes prove nothing of who was first. A listing that
  -- has left the market stays for a while (shown = 0), so that nobody takes over its name unseen.
  CREATE TABLE met_listings (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    seller_id TEXT NOT NULL,
    name TEXT NOT NULL,
    skeleton TEXT NOT NULL,
    first_seen INTEGER NOT NULL,
    shown INTEGER NOT NULL,
    price INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    text_key INTEGER NOT NULL,
    -- Number of the listing of another seller that this one may be taken for.
    alike INTEGER
  );
  CREATE INDEX met_by_price ON met_listings (price, number) WHERE shown = 1;
  CREATE INDEX met_gone ON met_listings (expires_at) WHERE shown = 0;
  CREATE INDEX met_alike ON met_listings (alike) WHERE alike IS NOT NULL;
  -- See lib/text/near-keys.ts.
  CREATE TABLE name_keys (key INTEGER, number INTEGER, PRIMARY KEY (key, number)) WITHOUT ROWID;
  -- Words of names and tags, to which a mistyped one is compared.
  CREATE TABLE market_words (
    initial TEXT, length INTEGER, word TEXT, PRIMARY KEY (initial, length, word)
  ) WITHOUT ROWID;
  -- Marks of what is filtered by, such as a tag or a seller, are words too: see store/listing-text.ts.
  CREATE VIRTUAL TABLE listing_text USING fts5 (
    name, tags, description, marks, content='', contentless_delete=1, prefix='2 3',
    tokenize="unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
  );
  -- By a trigger, since FTS5 leaves a last_insert_rowid beyond 2^53 when it deletes, at which every later statement of the
  -- connection fails in node:sqlite; the end of a trigger puts it back.
  CREATE TRIGGER met_hidden AFTER UPDATE OF shown ON met_listings WHEN old.shown = 1 AND new.shown = 0 BEGIN
    DELETE FROM listing_text WHERE rowid = old.number;
  END;
  `,
  `
  -- A2A tasks are asked for by their id, also after a restart.
  CREATE INDEX exchanges_of_a2a ON exchanges (correlation_id) WHERE caller_id GLOB 'a2a:*';
  `,
  `
  -- Orders that are placed and wait, are cancelled, or belong to a workflow. The indices end with the order's number.
  ALTER TABLE orders ADD COLUMN started_at INTEGER;
  ALTER TABLE orders ADD COLUMN cancel_requested_at INTEGER;
  ALTER TABLE orders ADD COLUMN workflow_id TEXT;
  ALTER TABLE orders ADD COLUMN step_id TEXT;
  DROP INDEX orders_by_agent;
  CREATE INDEX orders_by_agent ON orders (agent_id);
  DROP INDEX orders_open;
  CREATE INDEX orders_open ON orders (status) WHERE status IN ('pending', 'executing');
  CREATE INDEX orders_fruitless ON orders (status) WHERE status IN ('failed', 'cancelled');
  CREATE INDEX orders_by_workflow ON orders (workflow_id, step_id) WHERE workflow_id IS NOT NULL;

  CREATE TABLE workflows (
    no INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT,
    input TEXT NOT NULL,
    budget INTEGER,
    status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'completed', 'failed', 'canceled')),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
  );
  CREATE INDEX workflows_by_status ON workflows (status);

  CREATE TABLE workflow_steps (
    workflow_no INTEGER NOT NULL REFERENCES workflows (no),
    position INTEGER NOT NULL,
    id TEXT NOT NULL,
    -- What was asked for, as JSON: never changed.
    plan TEXT NOT NULL,
    -- As listed when the workflow was made.
    price INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'completed', 'failed', 'canceled', 'skipped')),
    -- Which of the step's agents is at work, counted from 0, and how often it has been asked.
    agent INTEGER NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0,
    -- Of the latest order placed for it: stored before that can run.
    order_id TEXT,
    -- Why it failed; while it is running, why the latest attempt placed no order, and when that was.
    error TEXT,
    refused_at INTEGER,
    started_at INTEGER,
    ended_at INTEGER,
    PRIMARY KEY (workflow_no, position)
  ) WITHOUT ROWID;
  CREATE INDEX workflow_steps_running ON workflow_steps (workflow_no) WHERE status = 'running';
  `,
  `
  -- Receipts, packed (store/receipt-row.ts), in the rows that a paid call writes anyway. A note: '' when the seller sent
  -- none, else why it was not kept.
  ALTER TABLE payments ADD COLUMN receipt BLOB;
  ALTER TABLE authorizations ADD COLUMN receipt BLOB;
  ALTER TABLE authorizations ADD COLUMN receipt_note TEXT;
  `,
  `
  -- What the replica must know of a listing without opening it, and how reconciliation finds it: by its time and hash.
  -- In rows from before they are NULL until the next start. expires_at is when the row may be forgotten.
  ALTER TABLE listings ADD COLUMN updated_at INTEGER;
  ALTER TABLE listings ADD COLUMN valid_until INTEGER;
  ALTER TABLE listings ADD COLUMN hash BLOB;
  -- When it was met, as long as the search index does not have it.
  ALTER TABLE listings ADD COLUMN to_index INTEGER;
  CREATE INDEX listings_by_time ON listings (updated_at, hash);
  CREATE INDEX listings_to_index ON listings (to_index) WHERE to_index IS NOT NULL;
  DROP INDEX listings_by_expiry;
  `,
  `
  -- Who may use the API beside its operator. Of a token only its hash is kept.
  CREATE TABLE tokens (
    no INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    scope TEXT NOT NULL CHECK (scope IN ('read', 'execute', 'spend', 'admin')),
    hash BLOB NOT NULL,
    budget INTEGER,
    per_day INTEGER,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
  );
  -- With whose token; NULL: the operator's own.
  ALTER TABLE orders ADD COLUMN token_id TEXT;
  ALTER TABLE workflows ADD COLUMN token_id TEXT;

  -- What counts against the limits of the budget, reserved and spent: per UTC day ('2026-11-21') and month ('2026-11') in
  -- all (scope ''), per day and seller ('seller …'), per token ('token …') a day and in all (period '').
  CREATE TABLE spending (
    period TEXT, scope TEXT, amount INTEGER NOT NULL, PRIMARY KEY (period, scope)
  ) WITHOUT ROWID;
  INSERT INTO spending SELECT day, '', amount FROM budget_days;
  INSERT INTO spending SELECT substr(day, 1, 7), '', sum(amount) FROM budget_days GROUP BY 1;
  INSERT INTO spending
    SELECT day, 'seller ' || seller_id, sum(amount) FROM authorizations WHERE state <> 'released' GROUP BY 1, 2;
  DROP TABLE budget_days;
  `,
  `
  -- What this node has seen of agents in use, from their orders as they end. Drop it and it is counted anew from then on.
  CREATE TABLE agent_measures (
    agent_id TEXT PRIMARY KEY,
    calls INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    volume INTEGER NOT NULL,
    last_seen INTEGER,
    -- Of the latest calls, as JSON.
    latencies TEXT NOT NULL,
    -- Rises with each change: who was called last.
    updated_no INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX agent_measures_by_change ON agent_measures (updated_no);
  INSERT INTO agent_measures
    SELECT o.agent_id, count(*), count(*), coalesce(sum(iif(a.tx_hash IS NOT NULL, a.amount, 0)), 0), max(o.updated_at), '[]',
      row_number() OVER (ORDER BY max(o.no))
    FROM orders o LEFT JOIN authorizations a ON a.order_no = o.no AND a.state = 'spent'
    WHERE o.status = 'completed' GROUP BY o.agent_id;
  `,
  `
  -- Addresses that are told what happens, and messages they have not taken yet; those of config.yaml stand only there.
  CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    events TEXT NOT NULL,
    secret TEXT NOT NULL,
    created_at INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE TABLE webhook_deliveries (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    webhook_id TEXT NOT NULL,
    body TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_attempt_at INTEGER NOT NULL
  );
  CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, next_attempt_at);
  `,
  `
  -- Transactions of this node's own account, stored before they are sent, and what they minted.
  CREATE TABLE chain_transactions (
    no INTEGER PRIMARY KEY,
    purpose TEXT NOT NULL,
    network TEXT NOT NULL,
    account BLOB NOT NULL,
    account_nonce INTEGER NOT NULL,
    call_to BLOB NOT NULL,
    call_data BLOB NOT NULL,
    raw BLOB NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (state IN ('sent', 'mined', 'failed', 'lost')),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
  );
  CREATE INDEX chain_transactions_open ON chain_transactions (network, account) WHERE state = 'sent';
  CREATE TABLE agent_tokens (
    agent_id TEXT, network TEXT, token_id TEXT NOT NULL, tx_hash BLOB NOT NULL, created_at INTEGER NOT NULL,
    PRIMARY KEY (agent_id, network)
  ) WITHOUT ROWID;
  `,
  `
  -- Purchases that wait for the operator's word.
  CREATE TABLE approvals (
    no INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    order_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    agent_name TEXT NOT NULL,
    seller_id TEXT NOT NULL,
    amount INTEGER NOT NULL,
    reason TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'expired')),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    decided_at INTEGER
  );
  CREATE INDEX approvals_by_order ON approvals (order_id);
  CREATE INDEX approvals_by_status ON approvals (status);
  ALTER TABLE orders ADD COLUMN approval_id TEXT;
  `,
  `
  -- What every paid call touches, in fewer pages: one index of payments under way for two, and exchanges found by their
  -- number, which rises with their time and is noted in the payment, for two more.
  DROP INDEX payments_due;
  DROP INDEX payments_running;
  CREATE INDEX payments_open ON payments (state, next_attempt_at) WHERE state IN ('authorized', 'owed');
  ALTER TABLE payments ADD COLUMN exchange_id INTEGER;
  UPDATE payments SET exchange_id = (SELECT id FROM exchanges WHERE payment_no = no);
  DROP INDEX exchanges_by_payment;
  DROP INDEX exchanges_by_age;
  `,
]
