/** A2A messages that come while the ledger is away: nothing begins, and a task that waits for its payment goes on waiting. */
import { randomUUID } from 'node:crypto'
import { AgentCard } from '@a2a-js/sdk'
import { ServerCallContext } from '@a2a-js/sdk/server'
import { expect, onTestFinished, test } from 'vitest'
import { asTask, resultOf, send, stateOf } from '../../test/support/a2a-client.ts'
import { failNext, type HowItFails } from '../../test/support/fail-next.ts'
import { listingFixture } from '../../test/support/fake-api.ts'
import { systemClock } from '../lib/clock.ts'
import { silentLogger } from '../lib/logger.ts'
import { OPERATOR } from '../schema/caller.ts'
import { openDatabase } from '../store/database.ts'
import { createExchanges } from '../store/exchanges.ts'
import { createSentMessageStore } from '../store/sent-messages.ts'
import { createTaskRecords } from '../store/task-records.ts'
import { agentCard } from './cards.ts'
import { createExecutor } from './executor.ts'
import { createRequestHandler } from './request-handler.ts'
import { SentMessages } from './sent-messages.ts'
import { A2aTasks, CALLER_KEY } from './tasks.ts'

const listing = listingFixture({ price: 0n, local: true })
const card = AgentCard.fromJSON(agentCard(listing, '', { version: '1', did: listing.seller_did, needsToken: false }))
const context = () => new ServerCallContext({ state: new Map([[CALLER_KEY, OPERATOR]]) })

/** An agent that asks for a payment first. `loseNext` loses the next message that is stored. */
function start() {
  const database = openDatabase({ path: ':memory:' })
  onTestFinished(() => database.close())
  const runTime = { now: () => 1_000, save: async () => {} }
  const messages = createSentMessageStore(database, runTime)
  const tasks = new A2aTasks({ records: createTaskRecords(database), messages })
  const exchanges = createExchanges(database)
  const runs: string[] = []
  const executor = createExecutor({
    ...{ clock: systemClock, logger: silentLogger, tasks, extensions: [], messages, rest: messages.rest },
    async work({ input, metadata, ids }) {
      if (metadata === undefined) return { kind: 'input-required', text: 'pay', metadata: { pay: '1 USDC' } }
      runs.push(input)
      const ran = { agentId: listing.id, callerId: 'caller', correlationId: ids.taskId, input, output: 'done' }
      await exchanges.record({ ...ran, createdAt: systemClock.now(), durationMs: 1 })
      return { kind: 'completed', output: 'done' }
    },
  })
  const loseNext = (how: HowItFails) => failNext(messages, 'put', how)
  const handler = createRequestHandler(listing.id, card, {
    ...{ tasks, executor, sent: new SentMessages({ messages, runTime }) },
  })
  const ask = async (message: ReturnType<typeof send>) => asTask(await handler.sendMessage(message, context()))
  return { ask, runs, loseNext }
}

test.each(['STORE_AWAY', 'STORE_WRITE_FAILED'] as const)(
  'a payment that comes during %s leaves its task waiting, and the same message pays for it later',
  async (code) => {
    const { ask, runs, loseNext } = start()
    const asked = await ask(send('a task'))
    const payment = send('pay', { taskId: asked.id, messageId: randomUUID(), metadata: { paid: true } })
    loseNext({ code })
    const told = await ask(payment)
    expect([told.id, stateOf(told)]).toEqual([asked.id, 'INPUT_REQUIRED'])
    expect(told.status?.message?.metadata).toEqual({ pay: '1 USDC' })
    expect(JSON.stringify(told.status?.message)).toMatch(/nothing was charged/)
    const done = await ask(payment)
    expect([stateOf(done), resultOf(done), runs]).toEqual(['COMPLETED', 'done', ['a task']])
  },
)

test('a payment that was stored although nobody said so begins its run', async () => {
  const { ask, runs, loseNext } = start()
  const asked = await ask(send('a task'))
  loseNext({ code: 'STORE_IN_DOUBT', isStored: true })
  const done = await ask(send('pay', { taskId: asked.id, messageId: randomUUID(), metadata: { paid: true } }))
  expect([stateOf(done), resultOf(done), runs]).toEqual(['COMPLETED', 'done', ['a task']])
})

test.each([
  ['STORE_WRITE_FAILED', false],
  ['STORE_IN_DOUBT', false],
  ['STORE_IN_DOUBT', true],
] as const)(
  'a task that comes during %s (stored: %s) begins when its message is sent again, if not at once',
  async (code, isStored) => {
    const { ask, loseNext } = start()
    const message = send('a task', { messageId: randomUUID() })
    loseNext({ code, isStored })
    const told = await ask(message)
    expect(stateOf(told)).toBe(isStored ? 'INPUT_REQUIRED' : 'REJECTED')
    expect(stateOf(await ask(message))).toBe('INPUT_REQUIRED')
  },
)
