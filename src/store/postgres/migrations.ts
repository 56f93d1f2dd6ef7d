import { firstMigration } from './first-migration.ts'

/**
 * The schema of the ledger on PostgreSQL, as numbered steps: step n migrates from version n to n + 1.
 *
 * Never edit a step that has shipped: add a new step at the end. Nodes of the version before run beside it while a seller
 * upgrades one after the other, so a step must leave what they read and write.
 */
export const migrations: readonly string[] = [
  firstMigration,
  `
  -- Whether a process lets others in beside it; and what it says of itself, for the others and for people: JSON.
  ALTER TABLE processes ADD COLUMN shared bigint NOT NULL DEFAULT 0;
  ALTER TABLE processes ADD COLUMN report text COLLATE "C";
  CREATE TABLE roles (
    name text COLLATE "C" PRIMARY KEY,
    owner text COLLATE "C" NOT NULL
  );
  ALTER TABLE payments ADD COLUMN owner text COLLATE "C";
  ALTER TABLE orders ADD COLUMN owner text COLLATE "C";
  ALTER TABLE workflows ADD COLUMN owner text COLLATE "C";
  `,
  `
  CREATE TABLE exposure (
    payer text COLLATE "C" PRIMARY KEY,
    amount bigint NOT NULL,
    payments bigint NOT NULL,
    losses bigint NOT NULL
  );
  ALTER TABLE payments ADD COLUMN counted bigint NOT NULL DEFAULT 0;
  CREATE INDEX payments_miscounted ON payments (no) WHERE
    ((counted > 0 AND NOT (state IN ('authorized', 'owed') AND (task IS NULL OR exchange_id IS NOT NULL)))
    OR (counted = 0 AND state IN ('authorized', 'owed') AND (task IS NULL OR exchange_id IS NOT NULL)));
  `,
]
