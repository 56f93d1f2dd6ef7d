import { access } from 'node:fs/promises'
import { DRAIN_SECONDS_MAX } from '../../config/settings.ts'
import { poll } from '../../lib/wait.ts'
import { dataFile } from '../../store/data-dir.ts'
import { isAlive, lockHolder } from '../../store/lock.ts'
import { readNodeFile } from '../../store/node-file.ts'
import { command } from '../command.ts'
import { dataDirOf } from '../data-dir-of.ts'
import { CliError } from '../exit-code.ts'

/** A worker has no API and no wallet: it is stopped where it was started. */
async function workerText(dataDir: string, pid: number | undefined): Promise<string> {
  if (pid === undefined || !(await exists(dataFile(dataDir, 'worker')))) return ''
  return `. A worker runs there (pid ${pid}): stop it with Ctrl-C in its terminal, or kill ${pid}, or by its service. Its tasks go to another worker`
}

const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )

/** Time for a node to stop, beside what it gives to calls under way (D9). On a busy machine this command waits longer. */
const STOP_MS_MAX = 13_000

export const stop = command({
  name: 'stop',
  local: true,
  summary: 'Stop the node that runs on the data directory',
  details:
    'Does the same as Ctrl-C in the terminal of the node. The agents leave the market. Running tasks have 2 seconds to finish (seller.drain_seconds). The node then cancels them, and their buyers are not charged. A task that was paid before it ran starts again after the next start. The node exits 3 seconds later at the latest. The next start continues its open orders and payments.',
  examples: ['stoa stop', 'stoa stop --data-dir ./seller'],
  async run(context, flags) {
    const { dataDir, config } = await dataDirOf(context, flags)
    const file = await readNodeFile(dataDir)
    const holder = lockHolder(dataDir)
    // A node file outlives a killed node. Its pid may then belong to another program.
    if (file === undefined || holder !== file.pid || !isAlive(file.pid)) {
      const nobody = `no Stoa node is running on ${dataDir}`
      throw new CliError('NODE_UNREACHABLE', `${nobody}${await workerText(dataDir, holder)}`)
    }
    const { pid } = file
    try {
      process.kill(pid, 'SIGTERM')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') {
        throw new CliError('FAILED', `the node (pid ${pid}) belongs to another user: stop it as that user`, {
          cause: error,
        })
      }
    }
    const limitMs = STOP_MS_MAX + (config?.seller.drainSeconds ?? DRAIN_SECONDS_MAX) * 1000
    const hasEnded = () => (isAlive(pid) && lockHolder(dataDir) === pid ? undefined : true)
    if ((await poll(hasEnded, { limitMs, signal: context.io.signal })) === undefined) {
      const how = `see stoa logs, or end it with kill -9 ${pid}: the next start continues its work`
      throw new CliError('DEADLINE', `the node (pid ${pid}) did not exit within ${limitMs / 1000} s: ${how}`)
    }
    context.printResult({ stopped: true, pid }, `stopped (pid ${pid})`)
  },
})
