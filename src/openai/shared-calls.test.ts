import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { SharedCalls } from './shared-calls.ts'

const NEVER = new AbortController().signal

function shared() {
  const clock = new HandClock()
  const read: string[] = []
  const calls = new SharedCalls<string>(clock, {
    afterResult: (outcome) => async () => {
      read.push(outcome)
      return `${outcome} again`
    },
    afterFailure: (error) => ((error as Error).message === 'paid' ? async () => Promise.reject(error) : undefined),
  })
  return { clock, calls, read }
}

test('T35: requests at the same time share one run, and later ones read its outcome for 30 s', async () => {
  const { clock, calls, read } = shared()
  let runs = 0
  const run = async () => `run ${++runs}`
  expect(await Promise.all([calls.join('a', NEVER, run), calls.join('a', NEVER, run)])).toEqual(['run 1', 'run 1'])
  clock.advance(29_999)
  expect(await calls.join('a', NEVER, run)).toBe('run 1 again')
  clock.advance(1)
  expect(await calls.join('a', NEVER, run)).toBe('run 2')
  expect(read).toEqual(['run 1'])
})

test('a failure that cost nothing is forgotten, another one answers again', async () => {
  const { calls } = shared()
  let runs = 0
  const failing = (message: string) => async () => {
    runs++
    throw new Error(message)
  }
  for (const message of ['nothing happened', 'paid', 'paid']) {
    await expect(calls.join(message, NEVER, failing(message))).rejects.toThrow(message)
  }
  expect(runs).toBe(2)
  await expect(calls.join('nothing happened', NEVER, async () => 'fine')).resolves.toBe('fine')
})

test('T35: a failure that was paid for answers again for 5 min, because some clients go on trying for two', async () => {
  const { clock, calls } = shared()
  let runs = 0
  const run = async () => {
    runs++
    throw new Error('paid')
  }
  await expect(calls.join('a', NEVER, run)).rejects.toThrow('paid')
  clock.advance(299_999)
  await expect(calls.join('a', NEVER, run)).rejects.toThrow('paid')
  expect(runs).toBe(1)
  clock.advance(1)
  await expect(calls.join('a', NEVER, run)).rejects.toThrow('paid')
  expect(runs).toBe(2)
})

test('a call is aborted when its last client has left, not before', async () => {
  const { calls } = shared()
  const clients = [new AbortController(), new AbortController()]
  let left: AbortSignal | undefined
  const run = (signal: AbortSignal) => {
    left = signal
    return new Promise<string>((_, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))))
  }
  const joined = clients.map(({ signal }) => calls.join('a', signal, run))
  clients[0]!.abort(new Error('left'))
  await expect(joined[0]).rejects.toThrow('left')
  expect(left?.aborted).toBe(false)
  clients[1]!.abort(new Error('left too'))
  await expect(joined[1]).rejects.toThrow('aborted')
  await expect(calls.join('a', NEVER, async () => 'a new run')).resolves.toBe('a new run')
})
