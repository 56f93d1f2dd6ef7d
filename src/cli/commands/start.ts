import { once } from 'node:events'
import { isDeepStrictEqual } from 'node:util'
import * as z from 'zod'
import { readAgentsFile } from '../../config/agents-yaml.ts'
import type { Config } from '../../config/config.ts'
import type { Secrets } from '../../config/secrets.ts'
import {
  AnnounceList,
  BootstrapList,
  HostText,
  NodeNameText,
  PortText,
  UrlText,
  UsdcText,
} from '../../config/values.ts'
import { CodedError, reasonOf } from '../../lib/errors.ts'
import type { Logger } from '../../lib/logger.ts'
import { stoaVersion } from '../../lib/version.ts'
import { orAborted } from '../../lib/wait.ts'
import { secp256k1 } from '../../payments/secp256k1.ts'
import type { AgentDefinition } from '../../schema/agent.ts'
import { Listing } from '../../schema/listing.ts'
import { dataFile, openDataDir } from '../../store/data-dir.ts'
import { readSecretFile } from '../../store/secret-file.ts'
import { type Context, command, flag, option, repeated } from '../command.ts'
import { exitCodes, UsageError } from '../exit-code.ts'
import { createLog } from '../log.ts'
import { createLogFile } from '../log-file.ts'
import { relieveMemory } from '../memory-relief.ts'
import { networkOptions } from '../node-access/network-options.ts'
import { settled, stopMsMax, stopNode } from '../node-access/own-node.ts'
import { publicOptions } from '../node-access/public-options.ts'
import { checkOpenFiles } from '../open-files.ts'
import type { OwnNode } from '../parts.ts'
import { type Ready, startWarnings, summaryLines } from '../text/start-summary.ts'
import { agentOptions, readDefinition } from './agent-config.ts'
import { type AgentNotice, inspectAgents } from './agent-notices.ts'

/** Time after the start until the node looks which code checks signatures. */
const SIGNATURES_LOOK_MS = 1_000

export const start = command({
  name: 'start',
  local: true,
  summary: 'Start a node: it sells the agents of agents.yaml, buys from others and serves the HTTP API',
  details:
    'With --name, the node also sells that agent until it stops. After Ctrl-C or SIGTERM the node takes its agents off the market, lets running tasks finish for 2 seconds (seller.drain_seconds), cancels the others without a charge, and exits 3 seconds later at the latest. A second Ctrl-C ends the node at once.',
  examples: [
    'stoa start',
    'stoa start --name Summarizer --description "Summarizes any text." --price 0.01 --model builtin/summarize',
    'stoa start --bootstrap /ip4/203.0.113.7/tcp/4001/p2p/12D3KooW… --max-price 0.10 --daily-budget 2',
    'stoa start --data-dir ./buyer --port 4002 --api-port 8425 --json',
  ],
  options: {
    ...agentOptions,
    ...networkOptions,
    announce: repeated(
      '--announce <multiaddr>',
      'an address to announce in addition to the detected addresses; may be repeated',
      AnnounceList,
    ),
    nodeName: option('--node-name <name>', 'name of this node in its listings', NodeNameText),
    relays: repeated(
      '--relay-via <multiaddr>',
      'a relay to use if nobody can dial this node; may be repeated',
      BootstrapList,
    ),
    relay: flag('--relay', 'act as a relay for nodes that nobody can dial'),
    upnp: flag('--upnp', 'ask the router to forward the peer port to this machine'),
    apiHost: option('--api-host <host>', 'address of the HTTP API (default: 127.0.0.1)', HostText),
    apiPort: option('--api-port <port>', 'port of the HTTP API (default: 8424)', PortText),
    ...publicOptions,
    insecureOpenApi: flag(
      '--insecure-open-api',
      'require no API token, even if other machines can reach the API and spend from the wallet',
    ),
    facilitatorUrl: option('--facilitator-url <url>', 'x402 facilitator that settles payments to this node', UrlText),
    maxPriceAtomic: option('--max-price <usdc>', 'the most that this node pays for one call (default: 1)', UsdcText),
    dailyBudgetAtomic: option('--daily-budget <usdc>', 'the most that this node pays per day (default: 5)', UsdcText),
    monthlyBudgetAtomic: option(
      '--monthly-budget <usdc>',
      'the most that this node pays per month (default: no limit)',
      UsdcText,
    ),
    autoApproveBelowAtomic: option(
      '--auto-approve-below <usdc>',
      'a call that costs this or more waits for stoa approvals (default: no call waits)',
      UsdcText,
    ),
    settleFirst: flag('--settle-first', 'settle each payment before the agent runs, not after'),
    keepListed: flag('--keep-listed', 'keep the agents on the market when the node stops'),
  },
  async run(context, { name, description, price, model, ...flags }) {
    const described = [name, description, price, model].some((given) => given !== undefined)
    const flagged = described ? readDefinition({ name, description, price, model }) : undefined
    const files = checkOpenFiles()
    const { config, secrets } = await context.loadConfig(flags)
    // No write test here: the node does it.
    const { notes } = await openDataDir(config.dataDir, { probe: false })
    const fromFile = await readAgentsFile(dataFile(config.dataDir, 'agents'))
    const definitions = fromFile.filter((agent) => agent.name !== flagged?.name)
    if (flagged !== undefined) definitions.push(flagged)
    const notices = await inspectAgents(definitions, secrets, config.dataDir)
    const unusable = notices.find((notice) => notice.definition === flagged && notice.broken)
    if (unusable !== undefined) throw new UsageError(`--model: ${unusable.text}`)
    const warnings = [...files, ...notes]
    const broken = new Set(
      notices.filter((notice) => notice.broken || notice.lacks !== undefined).map(({ definition }) => definition),
    )
    return await runNode(context, { config, secrets, fromFile, definitions, notices, broken, warnings })
  },
})

type Plan = {
  config: Config
  secrets: Secrets
  /** The agents of agents.yaml, as the file was when the command began. */
  fromFile: readonly AgentDefinition[]
  definitions: readonly AgentDefinition[]
  /** Agents that cannot run. They are stored and not listed. */
  broken: ReadonlySet<AgentDefinition>
  notices: readonly AgentNotice[]
  warnings: string[]
}

/** Runs a node: create, start, register agents, report, wait for the signal, stop. */
async function runNode(context: Context, plan: Plan): Promise<number> {
  const { config, secrets, warnings } = plan
  const { io, parts, redactor, style } = context
  const file = createLogFile(dataFile(config.dataDir, 'log'))
  const logger = createLog(config.log.level, io.stderr, { redactor, style: style.stderr, file })
  const waitForLedger = { signal: io.signal, waiting: (reason: string) => sayWaiting(context, logger, reason) }
  let node: OwnNode
  try {
    node = await parts.createNode(config, secrets, { logger, waitForLedger })
  } catch (error) {
    if (io.signal.aborted) return exitCodes.done
    throw error
  }
  const started = startAndList(node, plan, logger)
  try {
    const { listings, elsewhere } = await orAborted(started, io.signal)
    const notices = plan.notices.filter(({ definition }) => !elsewhere.has(definition))
    warnings.push(...startWarnings(config, plan.definitions, notices))
    await hideKeys(context, config)
    const { peerId, apiUrl, walletAddress } = node
    announce(context, {
      ...{ version: stoaVersion(), peerId, addresses: node.addresses(), apiUrl, walletAddress, config },
      ...{ listings, agents: plan.definitions.length, warnings },
      elsewhere: [...elsewhere].map(({ name }) => name),
    })
    relieveMemory(io.signal)
    warnOfSlowSignatures(logger, io.signal)
    await orAborted(untilLost(node), io.signal)
  } catch (error) {
    if (!io.signal.aborted) {
      await stopNode(node, stopMsMax(config)).catch((reason: unknown) =>
        logger.error({ err: reason }, 'the node did not stop cleanly'),
      )
      throw error
    }
  }
  const since = performance.now()
  if (!context.json) context.tell(style.stderr.dim('stopping'))
  await settled(started)
  const stopped = await stopNode(node, stopMsMax(config) - (performance.now() - since)).catch((reason: unknown) => {
    logger.error({ err: reason }, 'the node did not stop cleanly; all payments are on disk')
    return true
  })
  if (!stopped)
    logger.warn({}, `the node did not stop in time and was ended; all payments are on disk${leftOnChannels(config)}`)
  return exitCodes.done
}

/** A buyer can take out a day later what is not claimed. A claim may take longer than a stop may. */
function leftOnChannels({ seller }: Config): string {
  if (seller.channels === 'off') return ''
  return '. If buyers have paid on channels, start the node again within a day: it then claims what it has not'
}

function sayWaiting(context: Context, logger: Logger, reason: string): void {
  const text = `${reason}. This node waits until that one is gone`
  if (context.json) logger.warn({}, text)
  else context.tell(text)
}

/** Rejects if others have taken over the work of this process. */
async function untilLost({ lost }: OwnNode): Promise<never> {
  if (!lost.aborted) await once(lost, 'abort')
  throw lost.reason
}

/** Loads the native code to see if there is any. That waits until the node has started, because it takes some ms. */
function warnOfSlowSignatures(logger: Logger, signal: AbortSignal): void {
  const look = () => {
    let name: typeof secp256k1.name
    try {
      name = secp256k1.name
    } catch {
      // All files of the process are in use: nothing can be loaded now.
      return
    }
    clearInterval(timer)
    if (name === 'native') return
    const slow = 'this platform has no native secp256k1, so the node checks payments 20 to 30 times slower'
    logger.warn({}, `${slow}: see stoa doctor`)
  }
  const timer = setInterval(look, SIGNATURES_LOOK_MS).unref()
  signal.addEventListener('abort', () => clearInterval(timer), { once: true })
}

/** Starts the node and lists its agents. An agent that fails is reported and skipped, so that the others can sell. */
async function startAndList(
  node: OwnNode,
  { config, fromFile, definitions, broken, warnings }: Plan,
  logger: Logger,
): Promise<{ listings: Listing[]; elsewhere: ReadonlySet<AgentDefinition> }> {
  const isOffered = (one: AgentDefinition) => one.paused !== true && !broken.has(one)
  node.ownAgents.expect(definitions.filter(isOffered))
  await node.start()
  const listings: Listing[] = []
  /** Another process of this seller has a worker for them, for example. */
  const elsewhere = new Set<AgentDefinition>()
  for (const definition of definitions) {
    const stored = fromFile.includes(definition)
    try {
      if (!isOffered(definition)) {
        const { sold_elsewhere: isSold } = await node.ownAgents.keep(definition, { stored })
        if (isSold) elsewhere.add(definition)
      } else listings.push(await node.registerAgent(definition, { persist: false, stored }))
    } catch (error) {
      logger.error({ agent_name: definition.name, err: error }, 'an agent could not be registered')
      warnings.push(`${definition.name} is not on the market: ${reasonOf(error)}`)
      if (error instanceof CodedError && error.code === 'AGENT_NOT_RUNNABLE')
        await node.ownAgents.keep(definition, { stored })
    }
  }
  node.ownAgents.expect([])
  await followFile(node, { config, fromFile, warnings })
  return { listings, elsewhere }
}

/** Takes over what changed in agents.yaml while the node started: nobody could tell it then. */
async function followFile(
  node: OwnNode,
  { config, fromFile, warnings }: Pick<Plan, 'config' | 'fromFile' | 'warnings'>,
): Promise<void> {
  try {
    const now = await readAgentsFile(dataFile(config.dataDir, 'agents'))
    if (!isDeepStrictEqual(now, fromFile)) await node.ownAgents.reload()
  } catch (error) {
    warnings.push(`agents.yaml changed while the node started, and the change was not taken over: ${reasonOf(error)}`)
  }
}

/** Hides the keys that the node has created or read from the logs. */
async function hideKeys({ redactor }: Context, { dataDir }: Config): Promise<void> {
  for (const name of ['wallet', 'apiToken'] as const) {
    redactor.add(await readSecretFile(dataFile(dataDir, name)).catch(() => undefined))
  }
}

/** Prints a JSON line for programs, such as tests and the demo, or a summary for people. */
function announce(context: Context, ready: Ready): void {
  if (!context.json) {
    for (const line of summaryLines(ready, context.style.stdout)) context.print(line)
    return
  }
  const event = {
    event: 'ready',
    version: ready.version,
    pid: process.pid,
    api_url: ready.apiUrl ?? null,
    peer_id: ready.peerId,
    addresses: ready.addresses,
    wallet_address: ready.walletAddress,
    network: ready.config.network,
    data_dir: ready.config.dataDir,
    agents: ready.listings.map((listing) => z.encode(Listing, listing)),
    warnings: ready.warnings,
  }
  context.print(JSON.stringify(event))
}
