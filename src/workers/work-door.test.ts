import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { until } from '../../test/support/until.ts'
import { openWorkshop, task } from '../../test/support/workshop.ts'
import { encodeFrame } from '../protocols/frame.ts'
import { openDatabase } from '../store/database.ts'

const body = (text: string) => Buffer.from(text).toString('base64')
const HOUR_MS = 60 * 60 * 1000

test('a worker that joined runs a task, shows its output, and is listed with what it does', async () => {
  const shop = await openWorkshop()
  const { promise: goOn, resolve } = Promise.withResolvers<void>()
  const { id } = await shop.worker({
    async paint({ input, callerId, history, onOutput }) {
      onOutput?.('thinking ')
      await goOn
      return `${input} for ${callerId} after ${history.map(({ input }) => input)}`
    },
  })
  let shown = ''
  const onOutput = (text: string) => {
    shown += text
  }
  const history = [{ input: 'a house', output: 'done' }]
  const run = shop.pool.run('paint', task('a tree', { onOutput, history }))
  await until(() => shown !== '')
  expect(await shop.roll.list()).toMatchObject([{ id, state: 'connected', agents: ['paint'], running: 1, runs_max: 1 }])
  resolve()
  expect([await run, shown]).toEqual(['a tree for did:x after a house', 'thinking '])
  expect(await shop.roll.list()).toMatchObject([{ running: 0 }])
})

test('T34 nobody comes in without a token that holds', async () => {
  const shop = await openWorkshop()
  const token = await shop.invite()
  const asked = async (claim: { id: string; secret: string }, peerId?: string) =>
    (await (await shop.peer(peerId)).join(claim))?.message.code
  expect(await asked({ id: 'unknown', secret: token.secret })).toBe('TOKEN_UNKNOWN')
  expect(await asked({ id: token.id, secret: 'wrong' })).toBe('TOKEN_UNKNOWN')
  const late = await shop.invite({ expires_in_seconds: 60 })
  const taken = await shop.invite()
  await shop.roll.revoke(taken.id)
  expect(await asked(taken)).toBe('REVOKED')
  expect(await asked(token, 'first')).toBeUndefined()
  expect(await asked(token, 'second')).toBe('TOKEN_USED')
  shop.clock.advance(HOUR_MS)
  expect(await asked(late)).toBe('TOKEN_EXPIRED')
  // The key that has the token is not bound to the time of the invitation.
  shop.clock.advance(48 * HOUR_MS)
  expect(await asked(token, 'first')).toBeUndefined()
  expect((await shop.roll.list()).map(({ state }) => state)).toEqual(['revoked', 'expired', 'connected'])
})

test('T34 a revoked worker is cut off at once, and an older connection of the same worker ends', async () => {
  const shop = await openWorkshop()
  const token = await shop.invite()
  const [older, newer] = [await shop.peer('same'), await shop.peer('same')]
  expect(await older.join(token)).toMatchObject({ type: 'work.welcome' })
  expect(await newer.join(token)).toMatchObject({ type: 'work.welcome' })
  expect(await older.refusal()).toBe('REPLACED')
  expect(await shop.roll.list()).toMatchObject([{ state: 'connected' }])
  await shop.roll.revoke(token.id)
  expect(await newer.refusal()).toBe('REVOKED')
  expect(shop.pool.links()).toEqual([])
  await expect(shop.roll.revoke('unknown')).rejects.toMatchObject({ code: 'UNKNOWN_WORKER' })
})

type Lie = (worker: Awaited<ReturnType<Awaited<ReturnType<typeof openWorkshop>>['joined']>>, run: string) => unknown
const lies: [string, Lie][] = [
  ['answers a run that it was not given', (worker) => worker.send('work.result', { run: randomUUID(), body: '' })],
  ['joins twice', (worker) => worker.join({ id: 'x', secret: 'x' })],
  ['sends a message of the seller', (worker, run) => worker.send('work.cancel', { run })],
  ['sends no JSON', ({ stream }) => stream.send(encodeFrame({ type: 'work.result', data: Buffer.from('{') }))],
  ['sends no frames', ({ stream }) => stream.send(Buffer.alloc(1000, 255))],
  ['sends no text', (worker, run) => worker.send('work.result', { run, body: '//79' })],
]
test.each(lies)('T34 a worker that %s is cut off, and its run goes to another worker', async (_what, lie) => {
  const shop = await openWorkshop()
  const liar = await shop.joined()
  const result = shop.pool.run('paint', task('a tree'))
  const run = await liar.task()
  const honest = await shop.joined()
  await lie(liar, run)
  expect(await liar.next().then((next) => next === undefined || next.type === 'work.refused')).toBe(true)
  await until(() => shop.pool.links().length === 1)
  await honest.send('work.result', { run: await honest.task(), body: body('a painted tree') })
  expect(await result).toBe('a painted tree')
})

test('T34 a second result of one run, or one for the run of another worker, is nobody’s result', async () => {
  const shop = await openWorkshop()
  const [first, second] = [await shop.joined(['a']), await shop.joined(['b'])]
  const [a, b] = [shop.pool.run('a', task('of a')), shop.pool.run('b', task('of b'))]
  const [runA, runB] = [await first.task(), await second.task()]
  await first.send('work.result', { run: runA, body: body('done') })
  expect(await a).toBe('done')
  await first.send('work.result', { run: runB, body: body('forged') })
  expect(await first.refusal()).toBe('INVALID_MESSAGE')
  await second.send('work.result', { run: runB, body: body('honest') })
  expect(await b).toBe('honest')
  await second.send('work.result', { run: runB, body: body('once more') })
  expect(await second.refusal()).toBe('INVALID_MESSAGE')
})

test('T34 a worker that comes back with the result of a run that went to another is not believed', async () => {
  const shop = await openWorkshop()
  const token = await shop.invite()
  const slow = await shop.peer('slow')
  await slow.join(token)
  const result = shop.pool.run('paint', task('a tree'))
  const run = await slow.task()
  const other = await shop.joined()
  slow.stream.abort(new Error('the network is gone'))
  const handedOn = await other.task()
  const back = await shop.peer('slow')
  expect(await back.join(token)).toMatchObject({ type: 'work.welcome' })
  await back.send('work.result', { run, body: body('too late') })
  expect(await back.refusal()).toBe('INVALID_MESSAGE')
  await other.send('work.result', { run: handedOn, body: body('a painted tree') })
  expect(await result).toBe('a painted tree')
})

test('T34 a worker that sends more than the limit of a run is cut off, and memory is bounded', async () => {
  const shop = await openWorkshop()
  const large = await shop.joined()
  const result = shop.pool.run('paint', task('a tree'))
  await large.send('work.result', { run: await large.task(), body: body('x'.repeat(1001)) })
  await expect(result).rejects.toMatchObject({ code: 'AGENT_OUTPUT_TOO_LARGE' })
  expect(await large.refusal()).toBe('INVALID_MESSAGE')

  const chatty = await shop.joined()
  let shown = 0
  const onOutput = (text: string) => {
    shown += text.length
  }
  const said = shop.pool.run('paint', task('a tree', { onOutput }))
  const run = await chatty.task()
  for (let count = 0; count < 11; count += 1) await chatty.send('work.output', { run, text: 'x'.repeat(100) })
  await expect(said).rejects.toMatchObject({ code: 'AGENT_OUTPUT_TOO_LARGE' })
  expect([await chatty.refusal(), shown]).toEqual(['INVALID_MESSAGE', 1000])

  const flood = await shop.joined()
  const none = shop.pool.run('paint', task('a tree'))
  none.catch(() => {})
  await flood.task()
  const megabytes = Buffer.alloc(1024 * 1024, 'x')
  const header = Buffer.from('\0\u000bwork.result\0\u0080\0\0', 'latin1')
  flood.stream.send(header)
  for (let count = 0; count < 100 && flood.stream.status === 'open'; count += 1) {
    flood.stream.send(megabytes)
    await new Promise(setImmediate)
  }
  await until(() => shop.pool.links().length === 0)
  expect(shop.mostHeld()).toBeLessThan(20 * 1024 * 1024)
})

test('T34 a canceled run ends at once; a worker that does not stop it is cut off', async () => {
  const shop = await openWorkshop({ cancelMs: 20 })
  const worker = await shop.joined()
  const canceling = new AbortController()
  const result = shop.pool.run('paint', task('a tree', { signal: canceling.signal }))
  const run = await worker.task()
  canceling.abort(new Error('nobody wants it'))
  await expect(result).rejects.toMatchObject({ code: 'AGENT_CANCELLED' })
  expect(await worker.next()).toEqual({ type: 'work.cancel', message: { run } })
  expect(shop.pool.links()[0]!.running).toBe(1)
  expect(await worker.next()).toBeUndefined()
  expect(shop.pool.links()).toEqual([])
})

test('a result that crosses its cancellation frees the slot and harms nobody', async () => {
  const shop = await openWorkshop()
  const worker = await shop.joined()
  const canceling = new AbortController()
  const result = shop.pool.run('paint', task('a tree', { signal: canceling.signal }))
  const run = await worker.task()
  canceling.abort(new Error('nobody wants it'))
  await expect(result).rejects.toMatchObject({ code: 'AGENT_CANCELLED' })
  const next = shop.pool.run('paint', task('a house'))
  await worker.send('work.result', { run, body: body('a tree') })
  await worker.next()
  await worker.send('work.result', { run: await worker.task(), body: body('a house') })
  expect(await next).toBe('a house')
})

test('T34 a peer that joins again and again is limited, and at most 64 workers are connected', async () => {
  const shop = await openWorkshop()
  const token = await shop.invite()
  let welcomed = 0
  for (let count = 0; count < 100; count += 1) {
    const answer = await (await shop.peer('eager')).join(token).catch(() => undefined)
    if (answer?.type === 'work.welcome') welcomed += 1
  }
  expect(welcomed).toBe(8)
  const workers = []
  for (let count = 0; count < 64; count += 1) workers.push(await shop.joined([`agent ${count}`]))
  expect(shop.pool.links()).toHaveLength(64)
  const answers = await Promise.all(workers.slice(-1).map((worker) => worker.refusal()))
  expect(answers).toEqual(['WORKERS_TOO_MANY'])
})

test('T34 a worker that joins again and again does not keep out another one at the same address', async () => {
  const shop = await openWorkshop({ site: 'one home' })
  const token = await shop.invite()
  for (let count = 0; count < 100; count += 1) await (await shop.peer('eager')).join(token).catch(() => {})
  expect(await (await shop.peer('other')).join(await shop.invite())).toMatchObject({ type: 'work.welcome' })
})

test('T34 whatever a stranger sends first, the seller goes on (property)', async () => {
  const shop = await openWorkshop()
  const type = fc.oneof(
    fc.constantFrom('work.join', 'work.result', 'work.task'),
    fc.string({ minLength: 1, maxLength: 20 }),
  )
  const data = fc.oneof(
    fc.uint8Array({ maxLength: 100 }),
    fc.json().map((text) => Buffer.from(text)),
  )
  await fc.assert(
    fc.asyncProperty(type, data, async (type, data) => {
      const peer = await shop.peer()
      peer.stream.send(encodeFrame({ type, data }))
      expect(await peer.refusal()).toBe('INVALID_MESSAGE')
    }),
    { numRuns: 50 },
  )
  expect(await (await shop.peer()).join(await shop.invite())).toMatchObject({ type: 'work.welcome' })
})

const silent = (shop: Awaited<ReturnType<typeof openWorkshop>>, count: number, site: string) =>
  Promise.all(Array.from({ length: count }, (_, n) => shop.peer(`silent ${n}@${site}`)))

test('T34 strangers that say nothing keep no worker out, known or new', async () => {
  const shop = await openWorkshop({ site: (peerId) => peerId.split('@')[1] })
  const [token, invited] = [await shop.invite(), await shop.invite()]
  const before = await shop.peer('known@home')
  expect(await before.join(token)).toMatchObject({ type: 'work.welcome' })
  before.stream.abort(new Error('the network is gone'))
  for (const site of ['a', 'b', 'c', 'd', 'e', 'f']) await silent(shop, 20, site)
  expect(await (await shop.peer('known@home')).join(token)).toMatchObject({ type: 'work.welcome' })
  expect(await (await shop.peer('new@home')).join(invited)).toMatchObject({ type: 'work.welcome' })
})

test('T34 strangers at the address of a worker, or over relays, do not keep it from coming back', async () => {
  const shop = await openWorkshop({ site: () => undefined })
  const token = await shop.invite()
  expect(await (await shop.peer('known')).join(token)).toMatchObject({ type: 'work.welcome' })
  await silent(shop, 200, 'relay')
  expect(await (await shop.peer('stranger')).refusal()).toBe('OVERLOADED')
  expect(await (await shop.peer('known')).join(token)).toMatchObject({ type: 'work.welcome' })
})

test('T34 a stranger makes room only for others while it is silent', async () => {
  const shop = await openWorkshop({ site: () => 'one home' })
  const [first, ...rest] = await silent(shop, 8, 'home')
  const next = await shop.peer('next')
  expect(await first!.refusal()).toBe('OVERLOADED')
  for (const worker of [...rest, next]) {
    expect(await worker.join(await shop.invite())).toMatchObject({ type: 'work.welcome' })
  }
})

test('a seller that starts again knows its workers', async () => {
  const ledger = openDatabase({ path: ':memory:' })
  const site = () => undefined
  const earlier = await openWorkshop({ ledger, site })
  const token = await earlier.invite()
  expect(await (await earlier.peer('known')).join(token)).toMatchObject({ type: 'work.welcome' })
  const later = await openWorkshop({ ledger, site })
  await silent(later, 200, 'relay')
  expect(await (await later.peer('known')).join(token)).toMatchObject({ type: 'work.welcome' })
})

test('when the seller stops, tasks of workers end as those of its other agents, and no worker joins any more', async () => {
  const shop = await openWorkshop({ drainMs: 60_000 })
  const worker = await shop.joined()
  const result = shop.slots.run(undefined, 'paint', () => shop.pool.run('paint', task('a tree')))
  const run = await worker.task()
  const stopped = shop.door.stop()
  expect(await (await shop.peer()).refusal()).toBe('OVERLOADED')
  await worker.send('work.result', { run, body: '' })
  expect(await result).toBe('')
  await stopped
  expect(await worker.refusal()).toBe('OVERLOADED')
})
