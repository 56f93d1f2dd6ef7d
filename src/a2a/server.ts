import { AgentCard as CardMessage } from '@a2a-js/sdk'
import type { Tail } from '../ledger/tail.ts'
import type { Clock } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import { within } from '../lib/wait.ts'
import { givenAt } from '../payments/receipt.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { Listing } from '../schema/listing.ts'
import { AgentId } from '../schema/primitives.ts'
import type { RunTime } from '../store/run-time.ts'
import type { SentMessageStore } from '../store/sent-messages.ts'
import type { TaskRecords } from '../store/task-records.ts'
import { answerAgent, type ServedAgent } from './agent-door.ts'
import { type AgentWorkDeps, agentWork, notBegun } from './agent-work.ts'
import type { A2aCall } from './call.ts'
import { type AgentCard, agentCard, type CardOptions, leftCard, MARKET_ID, marketCard } from './cards.ts'
import { createExecutor, type Work } from './executor.ts'
import { leftAgents } from './left-agents.ts'
import { createRequestHandler } from './request-handler.ts'
import { SentMessages } from './sent-messages.ts'
import { A2aTasks } from './tasks.ts'

export type A2aServerDeps = AgentWorkDeps & {
  clock: Clock
  logger: Logger
  records: TaskRecords
  messages: SentMessageStore
  /** How long this node has run. Messages age by this time. */
  runTime: Pick<RunTime, 'now'>
  /** What other processes of this node ask. */
  tail: Pick<Tail, 'listen'>
  ownListing(id: string): Listing | undefined
  /** Undefined: the node itself is no agent here, so that nobody buys with its wallet. */
  market?: Work
}

export interface A2aServer {
  /** Answers the request. @throws CodedError UNKNOWN_AGENT, NOT_FOUND, METHOD_NOT_ALLOWED, BODY_TOO_LARGE */
  handle(call: A2aCall): Promise<void>
  /** Gives running tasks time to end, then aborts them and voids their payments. Takes at most 2.7 s. */
  stop(): Promise<void>
}

/** The same grace period as runs for peers: see protocols/serve. */
const STOP_GRACE_MS = 2_000
const STOP_ABORT_MS = 700

/** A2A servers for every agent of this node and for the node itself, under one mount. */
export function createA2aServer(options: CardOptions, deps: A2aServerDeps): A2aServer {
  const logger = deps.logger.child({ part: 'a2a' })
  const tasks = new A2aTasks({ ...deps, records: withReceipts(deps) })
  const sent = new SentMessages(deps)
  // The process that asks has checked that its caller may cancel the task.
  const asked = (id: string) => {
    const running = tasks.running(id)
    if (running !== undefined) tasks.cancel(running)
  }
  deps.tail.listen({ changed: ({ record, id }) => record === 'task' && asked(id), missed() {} })
  /** Each server is built with its first request, and again when its listing changes. */
  const agents = new WeakMap<Listing, ServedAgent>()
  const market = deps.market && serve(MARKET_ID, (url) => marketCard(url, options), deps.market, deps.clock.now())

  function handlerOf(id: string, card: CardMessage, { work, isLeft }: { work: Work; isLeft?: () => boolean }) {
    const extensions = card.capabilities?.extensions.map(({ uri }) => uri) ?? []
    // Market orders are in the ledger, under their idempotency key.
    const messages = id === MARKET_ID ? undefined : deps.messages
    const executor = createExecutor({
      ...{ clock: deps.clock, logger, tasks, work, extensions, messages },
      rest: (taskId, wait) => deps.messages.rest(taskId, wait),
    })
    return createRequestHandler(id, card, { tasks, executor, sent, ...(isLeft && { isLeft }) })
  }

  function serve(id: string, cardAt: (url: string) => AgentCard, work: Work, changedAt: number | string): ServedAgent {
    return {
      cardAt,
      handler: handlerOf(id, CardMessage.fromJSON(cardAt('')), { work }),
      changedAt: new Date(changedAt),
    }
  }

  const gone = CardMessage.fromJSON(leftCard(options))
  const left: ServedAgent = {
    handler: leftAgents(gone, (id) => handlerOf(id, gone, { work: noWork(id, deps), isLeft: () => isGone(id, deps) })),
    cardAt(_url, id) {
      // Throws if the agent will be here soon.
      deps.agents.find(id)
      return unknownAgent()
    },
    changedAt: new Date(deps.clock.now()),
  }

  function find(id: string): ServedAgent {
    if (id === MARKET_ID && market !== undefined) return market
    const listing = deps.ownListing(id)
    if (listing === undefined) return AgentId.safeParse(id).success ? left : unknownAgent()
    const known = agents.get(listing)
    if (known !== undefined) return known
    const work = agentWork(id, listing.description, deps)
    const served = serve(id, (url) => agentCard(listing, url, options), work, listing.updated_at)
    agents.set(listing, served)
    return served
  }

  return {
    async handle(call) {
      const id = /^\/([^/?]*)/.exec(call.rest)?.[1] ?? ''
      await answerAgent(find(id), call, { logger })
    },
    async stop() {
      if (await within(STOP_GRACE_MS, tasks.idle())) return
      tasks.abortAll(new Error('the node is stopping'))
      await within(STOP_ABORT_MS, tasks.idle())
    },
  }
}

/** The work of an agent that the node will host soon: none. */
const noWork =
  (id: string, { agents }: Pick<AgentWorkDeps, 'agents'>): Work =>
  async () => {
    try {
      agents.find(id)
      return { kind: 'rejected', text: 'this agent is not for sale now' }
    } catch (error) {
      return notBegun(error)
    }
  }

/** True if this node does not have the agent, and will not have it soon. */
function isGone(id: string, { agents }: Pick<AgentWorkDeps, 'agents'>): boolean {
  try {
    return agents.find(id) === undefined
  } catch (error) {
    if (error instanceof PeerError) return false
    throw error
  }
}

function unknownAgent(): never {
  throw new CodedError('UNKNOWN_AGENT', 'this node has no agent with this id')
}

/** Tasks of the ledger, with the receipts that their callers got. */
function withReceipts({ records, x402 }: A2aServerDeps): TaskRecords {
  if (x402 === undefined) return records
  return {
    async find(agentId, taskId) {
      const found = await records.find(agentId, taskId)
      if (found?.payment?.txHash === undefined) return found
      const { payment, endedAt } = found
      const { txHash, payer, signed: receipt } = payment
      const at = givenAt(receipt, endedAt)
      const settled = x402.settled({ agentId, txHash: txHash!, payer, receipt, at })
      return { ...found, payment: { ...payment, settled } }
    },
  }
}
