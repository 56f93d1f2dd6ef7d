/** T34: bytes that a worker may send while it has a task. The run fails, which charges nobody, and the seller goes on. */
import { expect, test } from 'vitest'
import { AgentError } from '../../src/agents/runtime.ts'
import { encodeFrame } from '../../src/protocols/frame.ts'
import { until } from '../support/until.ts'
import { openWorkshop, task } from '../support/workshop.ts'

const body = (text: string | Uint8Array) => Buffer.from(text).toString('base64')
const result = (data: string) => encodeFrame({ type: 'work.result', data: Buffer.from(data) })
const nested = '['.repeat(100_000) + ']'.repeat(100_000)

/** The head of a frame that is longer than any may be. */
function tooLong(): Uint8Array {
  const head = Buffer.from(result(''))
  head.writeUInt32BE(8 * 1024 * 1024 + 1, head.length - 4)
  return head
}

const lies: [string, (run: string) => Uint8Array][] = [
  ['a frame that is longer than any may be', tooLong],
  ['nested JSON instead of a message', () => result(nested)],
  ['nested JSON as its result', (run) => result(`{"run":"${run}","body":${nested}}`)],
  ['NUL bytes', () => result('\0'.repeat(1_000))],
  ['half of a character', (run) => result(JSON.stringify({ run, body: body(Buffer.from('eda080', 'hex')) }))],
]
test.each(lies)(
  'T34 a worker that sends %s is cut off, its run fails, and the next worker works',
  async (_what, lie) => {
    const shop = await openWorkshop({ awayMs: 1 })
    const liar = await shop.joined()
    const lost = shop.pool.run('paint', task('a tree')).catch((error: unknown) => error)
    liar.stream.send(lie(await liar.task()))
    expect(await lost).toBeInstanceOf(AgentError)
    await until(() => shop.pool.links().length === 0)
    const honest = await shop.joined()
    const run = shop.pool.run('paint', task('a house'))
    await honest.send('work.result', { run: await honest.task(), body: body('a house') })
    expect(await run).toBe('a house')
  },
)

test('T34 a result after its worker was revoked is nobody’s result', async () => {
  const shop = await openWorkshop({ awayMs: 1 })
  const [token, worker] = [await shop.invite(), await shop.peer()]
  await worker.join(token)
  const lost = shop.pool.run('paint', task('a tree')).catch((error: unknown) => error)
  const run = await worker.task()
  await shop.roll.revoke(token.id)
  await worker.send('work.result', { run, body: body('too late') }).catch(() => {})
  expect(await worker.refusal()).toBe('REVOKED')
  expect(await lost).toBeInstanceOf(AgentError)
})

test('T34 a token that 60 machines use in a row belongs to the first', async () => {
  const shop = await openWorkshop()
  const token = await shop.invite()
  expect(await (await shop.peer('first')).join(token)).toMatchObject({ type: 'work.welcome' })
  const answers = new Set<unknown>()
  for (let count = 1; count < 60; count += 1) answers.add((await (await shop.peer()).join(token))?.message.code)
  expect(answers).toEqual(new Set(['TOKEN_USED']))
  expect(shop.pool.links().map(({ worker }) => worker.peerId)).toEqual(['first'])
})
