import { stat } from 'node:fs/promises'
import * as z from 'zod'
import { readAgentsFile } from '../../config/agents-yaml.ts'
import { countText, LogLevelText, logLevels } from '../../config/values.ts'
import type { WorkerReady } from '../../node/worker-node.ts'
import { WORKER_RUNS_MAX } from '../../schema/work.ts'
import { dataFile, openDataDir } from '../../store/data-dir.ts'
import { type Context, command, option } from '../command.ts'
import { exitCodes, UsageError } from '../exit-code.ts'
import { createLog } from '../log.ts'
import { createLogFile } from '../log-file.ts'
import { readSecretText } from '../text/secret-text.ts'
import { printableLine } from '../text/terminal-text.ts'

const TokenText = z.string().trim().min(1, 'a join token')

export const worker = command({
  name: 'worker',
  local: true,
  summary: 'Run agents on this machine for a seller elsewhere',
  details:
    'The seller makes the join token with `stoa worker invite`. This machine runs the agents of its own agents.yaml, dials the seller, and connects again by itself. It needs no wallet and no open port. Other users of this machine can read the arguments of a command, so give the token in STOA_JOIN_TOKEN or in a file.',
  examples: ['stoa worker --data-dir ./gpu', 'stoa worker --join file:/run/secrets/join-token --runs 2'],
  options: {
    join: option('--join <token>', 'the join token, or file:<path> (or STOA_JOIN_TOKEN)', TokenText),
    runs: option('--runs <count>', 'tasks to run at the same time (default: 1)', countText(WORKER_RUNS_MAX)),
    logLevel: option('--log-level <level>', `log level on standard error: ${logLevels.join(', ')}`, LogLevelText),
  },
  async run(context, { join, runs = 1, ...flags }) {
    const { io, redactor, style } = context
    const token = await tokenOf(context, join)
    redactor.add(token)
    const { config, secrets } = await context.loadConfig(flags)
    const { dataDir } = config
    await openDataDir(dataDir, { probe: false })
    const path = dataFile(dataDir, 'agents')
    const definitions = await readAgentsFile(path)
    if (definitions.length === 0) {
      throw new UsageError(
        `${path} has no agents: write there what this machine runs, under the names that the seller uses`,
      )
    }
    const file = createLogFile(dataFile(dataDir, 'log'))
    const logger = createLog(config.log.level, io.stderr, { redactor, style: style.stderr, file })
    const onReady = (ready: WorkerReady) => announce(context, ready)
    const { runWorker } = await import('../../node/worker-node.ts')
    const options = { dataDir, token, runsMax: runs, definitions }
    await runWorker(options, { secrets, logger, fetch: context.parts.fetch, onReady }, io.signal)
    return exitCodes.done
  },
})

async function tokenOf(context: Context, join: string | undefined): Promise<string> {
  const [, path] = /^file:(.+)$/.exec(join ?? '') ?? []
  if (path !== undefined) {
    await warnOfReaders(context, path)
    return readSecretText(context, path, { flag: '--join', schema: TokenText })
  }
  if (join !== undefined) {
    const text = 'other users of this machine can read the join token in the arguments of this command'
    tell(context, `${text}: give it in STOA_JOIN_TOKEN, or in a file with --join file:<path>`)
  }
  const token = join ?? context.io.environment.STOA_JOIN_TOKEN?.trim()
  if (token) return token
  const fix = 'on the machine of the seller, `stoa worker invite` makes one'
  throw new UsageError(`the join token is missing: give it in STOA_JOIN_TOKEN or with --join; ${fix}`)
}

/** Until its first use, anybody who has the token can be the worker and gets the tasks of buyers. */
async function warnOfReaders(context: Context, path: string): Promise<void> {
  const mode = await stat(path).then(
    (found) => found.mode,
    () => 0,
  )
  if ((mode & 0o077) === 0) return
  tell(context, `other users of this machine can read the join token in ${path}: chmod 600 ${path}`)
}

function tell(context: Context, warning: string): void {
  context.tell(context.style.stderr.yellow(printableLine(warning, 400)))
}

function announce(context: Context, { peerId, sellerId, name, agents, unknown }: WorkerReady): void {
  if (context.json) {
    context.printJson({
      event: 'joined',
      pid: process.pid,
      peer_id: peerId,
      seller: sellerId,
      name,
      agents,
      unknown_agents: unknown,
    })
  } else {
    const what = agents.map((agent) => (unknown.includes(agent) ? `${agent} (the seller has no such agent)` : agent))
    context.print(
      printableLine(`${name} works for ${sellerId}: ${what.join(', ') || 'no agent that can run (see the log)'}`),
    )
  }
}
