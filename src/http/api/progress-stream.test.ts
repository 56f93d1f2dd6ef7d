import { expect, test } from 'vitest'
import { resultFixture } from '../../../test/support/fake-api.ts'
import { CodedError } from '../../lib/errors.ts'
import { silentLogger } from '../../lib/logger.ts'
import { OPERATOR } from '../../schema/caller.ts'
import type { OnProgress } from '../../schema/execution.ts'
import { progressStream, wantsStream } from './progress-stream.ts'

const running = { type: 'status', data: { status: 'running', order_id: 'o', correlation_id: 'c' } } as const
const say = (text: string) => ({ type: 'output', data: { text } }) as const

/** What is told of an execution that goes as `run` says. */
async function told(run: (tell: OnProgress) => Promise<void>, logged: object[] = []) {
  const logger = { ...silentLogger, error: (fields: object) => void logged.push(fields) }
  const { events } = await progressStream(
    async (tell) => {
      await run(tell)
      return resultFixture()
    },
    { caller: OPERATOR, logger },
  )
  return Array.fromAsync(events, ({ event, data }) => [event, data])
}

test('tells how far it has come, and the result last; what nobody has taken yet is joined', async () => {
  const events = await told(async (tell) => {
    tell(running)
    for (const text of ['a', 'b', 'c']) tell(say(text))
  })
  expect(events).toEqual([
    ['status', running.data],
    ['output', { text: 'abc' }],
    ['result', resultFixture()],
  ])
})

test('what fails before there is anything to tell is answered as ever; afterwards it is the last event', async () => {
  const refuse = async () => {
    throw new CodedError('UNKNOWN_AGENT', 'no such agent')
  }
  await expect(told(refuse)).rejects.toThrow('no such agent')
  const events = await told(async (tell) => {
    tell(say('half'))
    await refuse()
  })
  expect(events.at(-1)).toMatchObject(['error', { code: 'UNKNOWN_AGENT', status: 404 }])
})

test('a fault of the node is logged, and nothing of it is told', async () => {
  const logged: object[] = []
  const events = await told(async (tell) => {
    tell(running)
    throw new Error('/home/me/secret')
  }, logged)
  expect(events.at(-1)).toMatchObject(['error', { code: 'INTERNAL', status: 500 }])
  expect(JSON.stringify(events)).not.toContain('secret')
  expect(logged).toHaveLength(1)
})

test.each([
  ['text/event-stream', true],
  ['text/event-stream, */*;q=0.1', true],
  ['application/json, text/event-stream', false],
  ['*/*', false],
  [undefined, false],
])('Accept: %s', (accept, isStream) => {
  expect(wantsStream(accept)).toBe(isStream)
})
