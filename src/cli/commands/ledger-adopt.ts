import { stat } from 'node:fs/promises'
import { CodedError } from '../../lib/errors.ts'
import { silentLogger } from '../../lib/logger.ts'
import { dataFile } from '../../store/data-dir.ts'
import { COPY_RISK } from '../../store/ledger-home.ts'
import { lockDataDir } from '../../store/lock.ts'
import { openLedger } from '../../store/open-ledger.ts'
import { command, flag } from '../command.ts'
import { confirmed } from '../confirm.ts'
import { CliError, exitCodes } from '../exit-code.ts'

export const ledgerAdopt = command({
  name: 'ledger adopt',
  local: true,
  summary: 'Continue with a ledger that came from another machine or a backup, or that two nodes used',
  details:
    'A node does not start on a copy of a ledger (LEDGER_COPIED), because two nodes with one identity and one wallet can pay twice and sell twice. Stop the other node for good, then run this command once. It explains the risk and asks before it changes anything.',
  examples: ['stoa ledger adopt', 'stoa ledger adopt --data-dir ./seller --yes'],
  options: { yes: flag('--yes', 'skip the question') },
  async run(context, { yes, ...flags }) {
    const { dataDir } = (await context.loadConfig(flags)).config
    const isThere = await stat(dataFile(dataDir, 'database')).then(
      ({ size }) => size > 0,
      () => false,
    )
    if (!isThere) throw new CliError('FAILED', `${dataDir} has no ledger: name its directory with --data-dir`)
    const lock = lockDataDir(dataDir)
    try {
      const isCopied = await open(dataDir, false).then(
        () => false,
        (error: unknown) => {
          if (error instanceof CodedError && error.code === 'LEDGER_COPIED') return true
          throw error
        },
      )
      if (isCopied) {
        if (yes !== true) {
          context.tell(`${COPY_RISK}.`)
          const question = `No other node runs on a copy of ${dataDir}, and none will be started. Is this true? (yes/no)`
          if (!(await confirmed(context, question, 'to adopt the ledger'))) {
            context.tell('nothing was changed')
            return exitCodes.interrupted
          }
        }
        await open(dataDir, true)
      }
      const what = isCopied
        ? 'adopted the ledger: start the node with stoa start'
        : 'nothing to do: the node knows of no copy of this ledger'
      context.printResult({ adopted: isCopied, data_dir: dataDir }, what)
      return exitCodes.done
    } finally {
      lock.release()
    }
  },
})

async function open(dataDir: string, adopt: boolean): Promise<void> {
  const database = await openLedger(dataDir, { logger: silentLogger, adopt })
  await database.close()
}
