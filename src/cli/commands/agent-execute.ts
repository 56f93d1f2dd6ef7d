import type { Config } from '../../config/config.ts'
import type { Secrets } from '../../config/secrets.ts'
import { UsdcText } from '../../config/values.ts'
import { defined } from '../../lib/defined.ts'
import { orAborted, pause, poll } from '../../lib/wait.ts'
import type { ExecutionResult } from '../../schema/api.ts'
import type { ExecutionPayment } from '../../schema/execution-payment.ts'
import { agentOption, type Context, command, flag, option } from '../command.ts'
import { CliError } from '../exit-code.ts'
import { networkOptions } from '../node-access/network-options.ts'
import { withOwnNode } from '../node-access/own-node.ts'
import { agentIdOf, orStart } from '../node-access/references.ts'
import { findRunningNode } from '../node-access/running-node.ts'
import type { ExecuteRequest } from '../parts.ts'
import { badge } from '../text/badge.ts'
import { metText, namePeerText } from '../text/market-search-text.ts'
import { settlementText, withDeadline, writeResult } from '../text/market-text.ts'
import { showProgress } from '../text/show-progress.ts'
import { startSpinner } from '../text/spinner.ts'
import { printableLine } from '../text/terminal-text.ts'
import { orTellOrder, ownOrders } from './left-order.ts'
import { channelOptions, channelWish, keyOption, readTask, taskOptions, WAIT_SECONDS, waitOptions } from './task.ts'

/** How long a short-lived node searches for the agent. */
const FIND_MS_MAX = 20_000
/** Time to learn of another agent with the same name. */
const QUIET_MS = 2000

export const agentExecute = command({
  name: 'agent execute',
  summary: 'Send a task to an agent, pay its price and print the result',
  details:
    'The command uses the node that runs on the data directory. If no node runs, the command starts a temporary node, which finds the agent, pays it and stops. The result goes to standard output. All other text goes to standard error.',
  examples: [
    'stoa agent execute --agent-id abc… --task "Summarize: …"',
    'stoa agent execute --agent-id abc… - < report.txt > summary.txt',
    'stoa agent execute --agent-id abc… --input "…" --max-price 0.05 --json',
    'stoa agent execute --agent-id abc… --task "Write a story" --stream',
  ],
  options: {
    ...networkOptions,
    agentId: agentOption,
    ...taskOptions,
    maxPrice: option(
      '--max-price <usdc>',
      'the most to pay for this call (default: the limit of the node, 1 USDC)',
      UsdcText,
    ),
    awaitSettlement: flag(
      '--await-settlement',
      'wait until the payment has settled, and name its transaction (default: the result comes first)',
    ),
    ...channelOptions,
    stream: flag('--stream', 'show the output while the agent works; with --json, one JSON object per line'),
    ...keyOption('task'),
    ...waitOptions,
  },
  argument: {
    name: 'stdin',
    isOptional: true,
    description: '- reads the task from standard input',
    choices: ['-'],
    hint: 'pass the task with --task',
  },
  async run(
    context,
    { agentId, task, input, maxPrice, awaitSettlement, channel, stream = false, timeout = WAIT_SECONDS, ...rest },
    dash,
  ) {
    const { idempotencyKey, noChannel: _, ...flags } = rest
    const text = await readTask(context.io, { task, input, dash })
    const { config, secrets } = await context.loadConfig(flags)
    const shown = stream ? showProgress(context) : undefined
    const request = {
      ...{ agentId, input: text },
      ...defined({ maxPriceAtomic: maxPrice, awaitsSettlement: awaitSettlement }),
      ...channelWish(channel),
      ...defined({ idempotencyKey, onProgress: shown?.onProgress }),
    }
    const late = `no result within ${timeout} s: set a longer limit with --timeout`
    const result = await withDeadline(context, { seconds: timeout, late }, (signal) =>
      execute(context, { config, secrets, port: flags.port }, { ...request, signal }),
    )
    if (shown !== undefined) shown.end(result)
    else if (context.json) context.printJson(result)
    else writeResult(context, result)
    if (!context.json) tellCost(context, result)
  },
})

async function execute(
  context: Context,
  node: { config: Config; secrets: Secrets; port: number | undefined },
  request: ExecuteRequest & { idempotencyKey?: string },
): Promise<ExecutionResult> {
  const { agentId, signal } = request
  const spinner = context.json
    ? undefined
    : startSpinner(context.io.stderr, `asking agent ${printableLine(agentId, 24)}`)
  try {
    const running = await findRunningNode(context, node.config, node.secrets)
    if (running !== undefined) {
      const { onProgress } = request
      const id = await agentIdOf(running.node, agentId, { signal })
      if (onProgress !== undefined) spinner?.stop()
      return await orTellOrder(context, running.node, { ...request, spinner }, (idempotencyKey) => {
        const asked = { ...request, agentId: id, idempotencyKey }
        if (onProgress === undefined) return running.node.execute(asked, { signal })
        return running.node.executeStreamed({ ...asked, onProgress })
      })
    }
    spinner?.update('no node is running: starting a temporary node to find the agent')
    return await withOwnNode(context, node, async (own) => {
      const find = () => own.market.find(agentId)
      const listing = await poll(find, { limitMs: FIND_MS_MAX, signal })
      if (listing === undefined) {
        throw notFound(agentId, node.config, {
          known: own.listings().length,
          met: (await own.status()).search?.met ?? 0,
        })
      }
      // Before using a name, wait for listings of other agents with the same name.
      if (listing.id !== agentId) {
        await pause(QUIET_MS, signal)
        signal.throwIfAborted()
        find()
      }
      spinner?.update(`${printableLine(listing.name, 40)} was asked`)
      if (request.onProgress !== undefined) spinner?.stop()
      return await orTellOrder(context, ownOrders(own), { ...request, spinner }, (idempotencyKey) =>
        orAborted(own.execute({ ...request, agentId: listing.id, idempotencyKey }), signal),
      )
    })
  } finally {
    spinner?.stop()
  }
}

export function tellCost(context: Context, { payment, duration_ms, order_id }: ExecutionResult): void {
  const { style } = context
  const kind = payment === null ? '' : `${badge(payment.network, style.stderr)}  `
  const paid = payment === null ? 'free' : chargeText(payment)
  const order = order_id === undefined ? '' : ` · order ${order_id}`
  context.tell(kind + style.stderr.dim(printableLine(`${paid} · ${(duration_ms / 1000).toFixed(1)} s${order}`, 400)))
}

/** Only the chain makes an amount `paid`. Until then it is `held` (D42). */
function chargeText(payment: ExecutionPayment): string {
  const charge = payment.settlement === 'settled' ? 'paid' : 'held'
  return `${charge} ${payment.amount} USDC ${charge === 'paid' ? 'to' : 'for'} ${payment.pay_to}, ${settlementText(payment)}`
}

/** Says why neither the id nor the name came up, from what was heard. @internal Exported for its test. */
export function notFound(
  agentId: string,
  { p2p }: Pick<Config, 'p2p'>,
  { known, met }: { known: number; met: number },
): CliError {
  const shown = printableLine(agentId, 64)
  const why = `agent ${shown} was not found within ${FIND_MS_MAX / 1000} s`
  if (known > 0) {
    const among = `among the ${known} ${known === 1 ? 'agent' : 'agents'} on the market`
    return new CliError(
      'UNKNOWN_AGENT',
      `${why} ${among}${orStart(agentId)}: stoa agent discover lists the names and ids`,
    )
  }
  const bootstrapHint = 'check that its seller is running and that the --bootstrap peer answers (stoa doctor)'
  const alone = p2p.bootstrap.length === 0 ? namePeerText() : bootstrapHint
  return new CliError('UNKNOWN_AGENT', `${why}: ${met > 0 ? metText(met) : alone}`)
}
