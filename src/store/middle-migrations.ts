/** The steps of the schema after the early ones: see migrations.ts. */
export const middleMigrations: readonly string[] = [
  `
  -- Purchases that are spent and have no result yet: their sellers are asked for it (D44). 1, or NULL.
  ALTER TABLE authorizations ADD COLUMN unreceived INTEGER;
  UPDATE authorizations SET unreceived = 1
    WHERE state = 'spent' AND order_no IN (SELECT no FROM orders WHERE status IN ('executing', 'failed', 'cancelled'));
  CREATE INDEX authorizations_unreceived ON authorizations (valid_before_s) WHERE unreceived = 1;
  `,
  `
  -- A result that is not UTF-8, as it came, and what was odd in the response that brought it: a JSON list.
  ALTER TABLE orders ADD COLUMN output_bytes BLOB;
  ALTER TABLE orders ADD COLUMN notes TEXT;
  `,
  `
  -- When a settled payment is looked up on the chain again: before its window ends, and at a depth after it. NULL: never.
  ALTER TABLE payments ADD COLUMN look_at INTEGER;
  CREATE INDEX payments_look ON payments (look_at) WHERE look_at IS NOT NULL;
  `,
  `
  -- What the requests made that were sent with an idempotency key: an order or a workflow. token_id '': the operator.
  CREATE TABLE idempotency_keys (
    key TEXT NOT NULL,
    token_id TEXT NOT NULL,
    -- SHA-256 of what was asked for.
    hash BLOB NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('execute', 'order', 'workflow')),
    target TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (key, token_id)
  ) WITHOUT ROWID;
  -- What a token may see of orders, and how many it has open.
  CREATE INDEX orders_by_token ON orders (token_id) WHERE token_id IS NOT NULL;
  CREATE INDEX orders_open_by_token ON orders (token_id)
    WHERE status IN ('pending', 'executing') AND token_id IS NOT NULL;
  `,
  `
  -- Payments that were to be settled first and were answered 2007 (D39): 1 until their buyers have the result, then 2.
  ALTER TABLE payments ADD COLUMN deferred INTEGER;
  CREATE INDEX payments_deferred ON payments (peer_id, agent_id) WHERE deferred = 1;
  CREATE INDEX payments_unrun ON payments (created_at) WHERE task IS NOT NULL AND exchange_id IS NULL;
  `,
  `
  -- Agents that the operator has named by hand: listings as JSON. A removed one is kept for the orders that name it.
  CREATE TABLE imported_agents (
    id TEXT PRIMARY KEY,
    listing TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    removed INTEGER NOT NULL DEFAULT 0
  ) WITHOUT ROWID;
  `,
  `
  -- When the chain showed that a purchase was charged (D41). Until then its transaction is what the seller says. Earlier
  -- versions took the seller's word.
  ALTER TABLE authorizations ADD COLUMN confirmed_at INTEGER;
  UPDATE authorizations SET confirmed_at = updated_at WHERE state = 'spent' AND tx_hash IS NOT NULL;
  DROP INDEX authorizations_unconfirmed;
  CREATE INDEX authorizations_unconfirmed ON authorizations (created_at) WHERE state = 'spent' AND confirmed_at IS NULL;
  `,
  `
  -- Whether a payment is lost by its payer's own fault (D45): 1, or NULL. What was lost before tells it by its reason.
  ALTER TABLE payments ADD COLUMN blamed INTEGER;
  UPDATE payments SET blamed = 1 WHERE state = 'unsettled'
    AND (error LIKE '%insufficient%' OR error LIKE '%cancel%' OR error LIKE '%another transfer%');
  `,
  `
  -- Orders keep the name that their agent had (D42).
  ALTER TABLE orders ADD COLUMN agent_name TEXT;
  `,
  `
  -- When the chain is asked again what became of a purchase: it may have lagged, or take back what it showed. NULL: never.
  ALTER TABLE authorizations ADD COLUMN look_at INTEGER;
  CREATE INDEX authorizations_look ON authorizations (look_at) WHERE look_at IS NOT NULL;
  `,
  `
  -- Whether the seller settles before its agent runs (D45): 1, or NULL.
  ALTER TABLE authorizations ADD COLUMN settles_first INTEGER;
  `,
  `
  -- Alarms that the operator has dismissed, with the newest that each then grouped (D42); and runs that failed.
  CREATE TABLE alarm_dismissals (
    id TEXT PRIMARY KEY,
    mark TEXT NOT NULL,
    dismissed_at INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX exchanges_failed ON exchanges (id) WHERE error IS NOT NULL;
  `,
  `
  -- Orders keep the name that their seller had (D42).
  ALTER TABLE orders ADD COLUMN seller_name TEXT;
  `,
  `
  -- Wei that a transaction of this node's account moves, and the key of the request that it does.
  ALTER TABLE chain_transactions ADD COLUMN call_value TEXT NOT NULL DEFAULT '0';
  ALTER TABLE chain_transactions ADD COLUMN idempotency_key TEXT;
  CREATE INDEX chain_transactions_by_key ON chain_transactions (idempotency_key) WHERE idempotency_key IS NOT NULL;
  `,
  `
  -- The transaction in which a seller paid back: of what came in, and, once the chain shows it, of what went out.
  ALTER TABLE payments ADD COLUMN refund_tx BLOB;
  CREATE INDEX payments_refunded ON payments (no) WHERE refund_tx IS NOT NULL;
  ALTER TABLE authorizations ADD COLUMN refund_tx BLOB;
  CREATE UNIQUE INDEX authorizations_by_refund ON authorizations (refund_tx) WHERE refund_tx IS NOT NULL;
  `,
  `
  -- How long the node has run, in all its processes, in ms: keys and messages age by it, since clocks are set. Those from before begin
  -- their day anew.
  CREATE TABLE run_time (ms INTEGER NOT NULL);
  INSERT INTO run_time VALUES (0);
  ALTER TABLE idempotency_keys ADD COLUMN run_ms INTEGER NOT NULL DEFAULT 0;
  -- A2A messages whose tasks have begun. token_id '': the operator. ended: how, as JSON, where no exchange tells it.
  CREATE TABLE sent_messages (
    no INTEGER PRIMARY KEY,
    token_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    hash BLOB NOT NULL,
    task_id TEXT NOT NULL,
    context_id TEXT NOT NULL,
    ended TEXT,
    run_ms INTEGER NOT NULL,
    UNIQUE (token_id, agent_id, message_id)
  );
  CREATE INDEX sent_messages_by_task ON sent_messages (task_id);
  CREATE INDEX sent_messages_by_token ON sent_messages (token_id, no);
  `,
  `
  -- Results whose buyers had gone before they were there, and cannot ask for them as others can (D32).
  CREATE INDEX payments_unheard ON payments (peer_id, agent_id) WHERE deferred = 3;
  `,
  `
  -- The agent of this node whose run an order was bought for, as it was called, and the run, in which it is bought once (D38).
  ALTER TABLE orders ADD COLUMN for_agent TEXT;
  ALTER TABLE orders ADD COLUMN for_agent_name TEXT;
  ALTER TABLE orders ADD COLUMN for_run TEXT;
  CREATE INDEX orders_by_run ON orders (for_run) WHERE for_run IS NOT NULL;
  CREATE INDEX orders_fruitless_by_run ON orders (for_agent, created_at) WHERE for_agent IS NOT NULL AND status <> 'completed';
  `,
  `
  -- No commit merges the text index by itself, for as long as it takes: see \`merge\` of store/listing-index.ts.
  INSERT INTO listing_text (listing_text, rank) VALUES ('automerge', 0), ('crisismerge', 1000);
  `,
  `
  -- The payment that buys the run which an order was bought for: what it does not pay for is lost.
  ALTER TABLE orders ADD COLUMN for_payment BLOB;
  CREATE INDEX orders_unearned ON orders (for_agent, created_at) WHERE for_payment IS NOT NULL;
  `,
  `
  -- Deferred payments whose agent has not run. Each settlement reads them, so they are found without reading all payments.
  CREATE INDEX payments_deferred_unrun ON payments (no) WHERE deferred = 1 AND task IS NOT NULL AND exchange_id IS NULL;
  `,
  `
  -- Purchases whose seller has named no transaction: without an RPC only these are looked after, so no other is read.
  CREATE INDEX authorizations_unnamed ON authorizations (created_at)
    WHERE state = 'spent' AND confirmed_at IS NULL AND tx_hash IS NULL;
  `,
  `
  -- How often a payment has left a state that counts as final: one row. Sums over final payments are then outdated.
  CREATE TABLE revisions (noted INTEGER NOT NULL);
  INSERT INTO revisions VALUES (0);
  `,
]
