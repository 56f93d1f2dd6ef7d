import { firstMigration } from './first-migration.ts'

/**
 * The schema of the ledger on PostgreSQL, as numbered steps: step n migrates from version n to n + 1.
 *
 * Never edit a step that has shipped: add a new step at the end. Nodes of the version before run beside it while a seller
 * upgrades one after the other, so a step must leave what they read and write.
 */
export const migrations: readonly string[] = [firstMigration]
