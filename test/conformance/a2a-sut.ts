/**
 * An agent for the A2A conformance kit, behind everything of ours but the agent itself: `node test/conformance/a2a-sut.ts`
 * prints its URL, on the local API, or on the public listener with `--public`. The kit says by the prefix of a message's id what the agent is to do (its `scenarios/`); agents of a node
 * only ever turn text into text, so what they cannot do is done here. See docs/conformance.md.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { AgentCard, type Message, type Part, Role, TaskState } from '@a2a-js/sdk'
import { AgentEvent, type AgentExecutor, type ExecutionEventBus, type RequestContext } from '@a2a-js/sdk/server'
import { answerAgent } from '../../src/a2a/agent-door.ts'
import type { A2aCall } from '../../src/a2a/call.ts'
import { agentCard } from '../../src/a2a/cards.ts'
import { a2aMount } from '../../src/a2a/mount.ts'
import { createRequestHandler } from '../../src/a2a/request-handler.ts'
import { SentMessages } from '../../src/a2a/sent-messages.ts'
import { statusOf, textPart } from '../../src/a2a/task-events.ts'
import { A2aTasks } from '../../src/a2a/tasks.ts'
import type { AgentSale } from '../../src/http/public/agent-sale.ts'
import { createSiteReader } from '../../src/http/public/client-site.ts'
import { PublicLimits, publicLimits } from '../../src/http/public/public-limits.ts'
import { createPublicListener } from '../../src/http/public/public-listener.ts'
import type { PublicMount } from '../../src/http/public/public-mount.ts'
import { createApi } from '../../src/http/server/app.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { Meters } from '../../src/lib/meters.ts'
import { STRANGER } from '../../src/schema/caller.ts'
import { openDatabase } from '../../src/store/database.ts'
import { createRunTime } from '../../src/store/run-time.ts'
import { createSentMessageStore } from '../../src/store/sent-messages.ts'
import { fakeDeps, listingFixture, loopbackOptions } from '../support/fake-api.ts'

const { values, positionals } = parseArgs({ options: { public: { type: 'boolean' } }, allowPositionals: true })
const PORT = Number(positionals[0] ?? 0)
const RESUBSCRIBE_MS = 4_000

const file = (content: Part['content']): Part => ({
  content,
  filename: 'output.txt',
  mediaType: 'text/plain',
  metadata: undefined,
})
const data: Part = {
  content: { $case: 'data', value: { key: 'value', count: 42 } },
  mediaType: 'application/json',
  filename: '',
  metadata: undefined,
}
const written = file({ $case: 'raw', value: Buffer.from('text') })

type Step = 'working' | 'completed' | 'input-required' | 'rejected' | 'wait' | Part[] | { chunk: string; last: boolean }
/** By prefix of the message's id, the longest first. */
const scenarios: [string, Step[]][] = [
  ['tck-artifact-file-url', [[file({ $case: 'url', value: 'https://example.com/output.txt' })], 'completed']],
  ['tck-artifact-file', [[written], 'completed']],
  ['tck-artifact-text', [[textPart('Generated text content')], 'completed']],
  ['tck-artifact-data', [[data], 'completed']],
  ['tck-input-required', ['input-required']],
  ['tck-reject-task', ['rejected']],
  ['tck-stream-001', ['working', [textPart('Stream hello from TCK')], 'completed']],
  ['tck-stream-003', ['working', [textPart('Stream task lifecycle')], 'completed']],
  ['tck-stream-ordering-001', ['working', [textPart('Ordered output')], 'completed']],
  ['tck-stream-artifact-text', ['working', [textPart('Streamed text content')], 'completed']],
  ['tck-stream-artifact-file', ['working', [written], 'completed']],
  [
    'tck-stream-artifact-chunked',
    ['working', { chunk: 'chunk-1 ', last: false }, { chunk: 'chunk-2', last: true }, 'completed'],
  ],
  ['test-resubscribe-message-id', ['working', 'wait', 'completed']],
]

const states = {
  working: TaskState.TASK_STATE_WORKING,
  completed: TaskState.TASK_STATE_COMPLETED,
  'input-required': TaskState.TASK_STATE_INPUT_REQUIRED,
  rejected: TaskState.TASK_STATE_REJECTED,
} as const

const executor: AgentExecutor = {
  async execute({ taskId, contextId, userMessage, task }: RequestContext, bus: ExecutionEventBus) {
    const ids = { taskId, contextId }
    if (userMessage.messageId.startsWith('tck-message-response')) {
      return bus.publish(AgentEvent.message(reply('Direct message response', contextId)))
    }
    const status = statusOf(TaskState.TASK_STATE_SUBMITTED, ids, Date.now())
    const submitted = { id: taskId, contextId, status, artifacts: [], history: [userMessage], metadata: undefined }
    bus.publish(AgentEvent.task(task ?? submitted))
    const steps = scenarios.find(([prefix]) => userMessage.messageId.startsWith(prefix))?.[1] ?? ['completed']
    for (const step of steps) await take(step, ids, bus)
  },
  async cancelTask(taskId, bus) {
    const ids = { taskId, contextId: '' }
    const status = statusOf(TaskState.TASK_STATE_CANCELED, ids, Date.now())
    bus.publish(AgentEvent.statusUpdate({ ...ids, status, metadata: undefined }))
  },
}

async function take(step: Step, ids: { taskId: string; contextId: string }, bus: ExecutionEventBus): Promise<void> {
  if (step === 'wait') return void (await wait(RESUBSCRIBE_MS))
  if (typeof step === 'string') {
    const said = step === 'completed' ? { text: 'Hello from TCK' } : {}
    const status = statusOf(states[step], ids, Date.now(), said)
    return bus.publish(AgentEvent.statusUpdate({ ...ids, status, metadata: undefined }))
  }
  const isWhole = Array.isArray(step)
  const parts = isWhole ? step : [textPart(step.chunk)]
  const artifact = { artifactId: 'a', name: 'a', description: '', parts, metadata: undefined, extensions: [] }
  const lastChunk = isWhole || step.last
  bus.publish(AgentEvent.artifactUpdate({ ...ids, artifact, append: !isWhole, lastChunk, metadata: undefined }))
}

function reply(text: string, contextId: string): Message {
  const blank = { taskId: '', metadata: undefined, extensions: [], referenceTaskIds: [] }
  return { ...blank, contextId, messageId: randomUUID(), role: Role.ROLE_AGENT, parts: [textPart(text)] }
}

const listing = listingFixture({ price: 0n, local: true })
const cardAt = (url: string) =>
  agentCard(listing, url, { version: '1.0.0', did: listing.seller_did, needsToken: false })
const tasks = new A2aTasks({ records: { find: async () => undefined } })
const database = openDatabase({ path: ':memory:' })
const runTime = await createRunTime(database, systemClock)
const sent = new SentMessages({ messages: createSentMessageStore(database, runTime), runTime })
const handler = createRequestHandler(listing.id, AgentCard.fromJSON(cardAt('')), { tasks, executor, sent })
const agent = { handler, cardAt, changedAt: new Date() }
const deps = { logger: silentLogger }
const handle = (call: A2aCall) => answerAgent(agent, call, deps)
const api = values.public ? publicListener() : localApi()
await api.start()
console.log(`${api.url}/a2a/${listing.id}`)
process.once('SIGTERM', () => void api.stop())

function localApi() {
  const mounts = [a2aMount(async () => ({ handle, stop: async () => {} }))]
  return createApi({ ...loopbackOptions, port: PORT }, fakeDeps({ mounts }))
}

/** The listener with all of its limits. Only its own address sells no agent. */
function publicListener() {
  const mount: PublicMount = {
    path: '/a2a',
    handle: (call) => handle({ ...call, url: `${listener.url}/a2a`, caller: STRANGER }),
    stop: async () => {},
  }
  const listener = createPublicListener(
    { host: '127.0.0.1', port: PORT, url: undefined, drainMs: 0 },
    {
      ...{ logger: silentLogger, meters: new Meters(), agentSale: {} as AgentSale, mounts: [mount] },
      ...{ index: () => ({}), openApi: () => ({}), doorSales: { idle: async () => {}, abort: () => {} } },
      limits: new PublicLimits(publicLimits, { clock: systemClock }),
      sites: createSiteReader([]),
    },
  )
  return listener
}
