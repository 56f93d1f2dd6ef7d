import { stat } from 'node:fs/promises'
import type { Config } from '../../config/config.ts'
import type { Secrets } from '../../config/secrets.ts'
import { CodedError } from '../../lib/errors.ts'
import { silentLogger } from '../../lib/logger.ts'
import { dataFile } from '../../store/data-dir.ts'
import { openDatabases } from '../../store/databases.ts'
import { COPY_RISK } from '../../store/ledger-home.ts'
import { lockDataDir } from '../../store/lock.ts'
import { command, flag } from '../command.ts'
import { confirmed } from '../confirm.ts'
import { CliError, exitCodes } from '../exit-code.ts'

/** Refusals of a ledger that the operator may overrule. */
const ADOPTABLE = ['LEDGER_COPIED', 'LEDGER_OF_ANOTHER']

export const ledgerAdopt = command({
  name: 'ledger adopt',
  local: true,
  summary: 'Continue with a ledger that came from another machine or a backup, or that two nodes used',
  details:
    'A node does not start on a copy of a ledger (LEDGER_COPIED), because two nodes with one identity and one wallet can pay twice and sell twice. Neither does it start on a ledger in PostgreSQL of another seller, wallet or network (LEDGER_OF_ANOTHER). Stop the other node for good, then run this command once. It explains the risk and asks before it changes anything.',
  examples: ['stoa ledger adopt', 'stoa ledger adopt --data-dir ./seller --yes'],
  options: { yes: flag('--yes', 'skip the question') },
  async run(context, { yes, ...flags }) {
    const { config, secrets } = await context.loadConfig(flags)
    const { dataDir } = config
    if (secrets.database === undefined && !(await hasLedger(dataDir))) {
      throw new CliError('FAILED', `${dataDir} has no ledger: name its directory with --data-dir`)
    }
    const lock = lockDataDir(dataDir)
    try {
      const open = opener(config, secrets)
      const isRefused = await open(false).then(
        () => false,
        (error: unknown) => {
          if (error instanceof CodedError && ADOPTABLE.includes(error.code)) return true
          throw error
        },
      )
      if (isRefused) {
        if (yes !== true) {
          context.tell(`${COPY_RISK}.`)
          const question = `No other node uses the ledger of ${dataDir} or a copy of it, and none will. Is this true? (yes/no)`
          if (!(await confirmed(context, question, 'to adopt the ledger'))) {
            context.tell('nothing was changed')
            return exitCodes.interrupted
          }
        }
        await open(true)
      }
      const what = isRefused
        ? 'adopted the ledger: start the node with stoa start'
        : 'nothing to do: the node knows of no copy of this ledger'
      context.printResult({ adopted: isRefused, data_dir: dataDir }, what)
      return exitCodes.done
    } finally {
      lock.release()
    }
  },
})

/** Opens the ledger as a node does, and closes it again. */
function opener({ dataDir, network }: Config, secrets: Secrets): (adopt: boolean) => Promise<void> {
  const { database } = secrets
  return async (adopt) => {
    const how = { logger: silentLogger, isAlone: true, adopt }
    if (database === undefined) {
      const databases = await openDatabases(dataDir, { ...how, url: undefined })
      return databases.close()
    }
    const [{ loadOrCreateIdentity }, { knownOwner }] = await Promise.all([
      import('../../p2p/identity.ts'),
      import('../../node/known-owner.ts'),
    ])
    const owner = await knownOwner({ dataDir, network }, secrets)
    const { wallet } = owner
    if (wallet === undefined) throw new CliError('FAILED', `${dataDir} has no wallet key: put it there first`)
    const databases = await openDatabases(dataDir, { ...how, url: database.url, owner })
    try {
      const { peerId: seller } = await loadOrCreateIdentity(dataFile(dataDir, 'identity'))
      await databases.claim({ seller, wallet, network })
    } finally {
      await databases.close()
    }
  }
}

async function hasLedger(dataDir: string): Promise<boolean> {
  return stat(dataFile(dataDir, 'database')).then(
    ({ size }) => size > 0,
    () => false,
  )
}
