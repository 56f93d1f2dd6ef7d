import { CodedError } from '../../lib/errors.ts'
import { type Finding, fail, ok, skip } from '../../lib/finding.ts'
import { lockHolder } from '../../store/lock.ts'
import { serverName } from '../../store/server-ledger.ts'
import { StoreError } from '../../store/store-error.ts'
import type { Check, Patient } from './check.ts'

/** Whether a node would start with this ledger. Looks as the start does, and changes nothing. */
export const ledgerCheck: Check = {
  id: 'ledger',
  title: 'Ledger',
  async run(patient) {
    // A node that does not answer is a finding of its own.
    if (patient.running !== undefined) return skip('the running node says nothing of it')
    try {
      const url = patient.secrets.database?.url
      return url === undefined ? await ofFile(patient) : await ofServer(patient, url)
    } catch (error) {
      if (!(error instanceof CodedError)) throw error
      if (error instanceof StoreError && error.code === 'STORE_AWAY') return skip('not known: the database is away')
      return fail(error.message, 'do what it says: until then the node does not start (docs/operations.md)')
    }
  },
}

async function ofFile({ config: { dataDir } }: Patient): Promise<Finding> {
  if (lockHolder(dataDir) !== undefined) return skip('another stoa uses it')
  const { inspectLedger } = await import('../../store/open-ledger.ts')
  return (await inspectLedger(dataDir)) ? ok('undamaged, and at home here') : ok('none yet, created at the first start')
}

async function ofServer({ config, secrets }: Patient, url: string): Promise<Finding> {
  const [{ inspectServerLedger }, { checkServerLedger }, { knownOwner }] = await Promise.all([
    import('../../store/postgres/inspect-postgres.ts'),
    import('../../store/ledger-checks.ts'),
    import('../../node/known-owner.ts'),
  ])
  const owner = await knownOwner(config, secrets)
  const { facts } = await inspectServerLedger(url)
  await checkServerLedger(facts, { dataDir: config.dataDir, server: serverName(url), owner, adopt: false })
  if (facts === undefined) return ok('none yet, created at the first start')
  return ok(facts.owner === undefined ? 'of nobody yet' : 'of this seller, its wallet and network')
}
