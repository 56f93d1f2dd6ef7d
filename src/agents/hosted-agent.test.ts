import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { runBounded } from './hosted-agent.ts'
import { AgentError, type AgentRuntime } from './runtime.ts'

const limits = { timeoutMs: 1000, outputBytesMax: 10 }

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  expect(vi.getTimerCount()).toBe(0)
  vi.useRealTimers()
})

function runtime(run: AgentRuntime['run']): AgentRuntime {
  return { model: 'test', run }
}

function call(signal: AbortSignal = new AbortController().signal) {
  return { input: 'x', callerId: 'c', history: [], signal }
}

function failure(running: Promise<string>): Promise<AgentError> {
  return running.then(
    (output) => expect.fail(`gave ${output}`),
    (error: AgentError) => error,
  )
}

/** Ends by itself long after every limit here: a test fails by what it gave, and not by its own time limit. */
const LONG_MS = 60_000

/** Runs until it is told to stop, then takes `stopMs` to do so. */
const stubborn = (stopMs: number) =>
  runtime(
    ({ signal }) =>
      new Promise((resolve, reject) => {
        if (stopMs === 0) setTimeout(resolve, LONG_MS, 'unbounded')
        signal.addEventListener('abort', () => {
          if (stopMs < Number.POSITIVE_INFINITY) setTimeout(() => reject(new Error('stopped')), stopMs)
        })
      }),
  )

test('a result within the limits is passed on', async () => {
  expect(
    await runBounded(
      runtime(async ({ input }) => `${input}!`),
      limits,
      call(),
    ),
  ).toBe('x!')
})

test('the output limit counts bytes, and the limit itself is allowed', async () => {
  expect(
    await runBounded(
      runtime(async () => '€€€1'),
      limits,
      call(),
    ),
  ).toBe('€€€1')
  const error = await failure(
    runBounded(
      runtime(async () => '€€€12'),
      limits,
      call(),
    ),
  )
  expect(error).toMatchObject({
    code: 'AGENT_OUTPUT_TOO_LARGE',
    message: "the agent's result is larger than its limit of 10 bytes",
  })
})

test('a lone surrogate in a result becomes text that every encoder takes (T8)', async () => {
  expect(
    await runBounded(
      runtime(async () => 'a\ud800b'),
      limits,
      call(),
    ),
  ).toBe('a\ufffdb')
})

test('the time limit aborts the runtime and names the limit (T22)', async () => {
  const failed = failure(runBounded(stubborn(0), limits, call()))
  await vi.advanceTimersByTimeAsync(1000)
  await vi.runAllTimersAsync()
  expect(await failed).toMatchObject({
    code: 'AGENT_TIMEOUT',
    message: 'the agent did not finish within its limit of 1 s',
  })
})

test('a cancel aborts the runtime', async () => {
  const controller = new AbortController()
  const failed = failure(runBounded(stubborn(0), limits, call(controller.signal)))
  controller.abort(new Error('secret reason'))
  await vi.runAllTimersAsync()
  expect(await failed).toMatchObject({ code: 'AGENT_CANCELLED', message: 'the task was canceled' })
})

test('a runtime that does not stop is given up after three seconds', async () => {
  const failed = failure(runBounded(stubborn(Number.POSITIVE_INFINITY), limits, call()))
  let isDone = false
  void failed.then(() => {
    isDone = true
  })
  await vi.advanceTimersByTimeAsync(3999)
  expect(isDone).toBe(false)
  await vi.advanceTimersByTimeAsync(1)
  expect(await failed).toMatchObject({ code: 'AGENT_TIMEOUT' })
})

test('a result that comes after the time is over is too late', async () => {
  const late = runtime(
    ({ signal }) => new Promise((resolve) => signal.addEventListener('abort', () => resolve('late'))),
  )
  const failed = failure(runBounded(late, limits, call()))
  await vi.advanceTimersByTimeAsync(1000)
  expect((await failed).code).toBe('AGENT_TIMEOUT')
})

test('a task canceled beforehand does not run', async () => {
  const run = vi.fn()
  expect((await failure(runBounded(runtime(run), limits, call(AbortSignal.abort())))).code).toBe('AGENT_CANCELLED')
  expect(run).not.toHaveBeenCalled()
})

test('an error the runtime explains is passed on; any other is hidden from the buyer (T21)', async () => {
  const explained = new AgentError('AGENT_NOT_RUNNABLE', 'no key')
  expect(
    await failure(
      runBounded(
        runtime(() => Promise.reject(explained)),
        limits,
        call(),
      ),
    ),
  ).toBe(explained)
  const inner = new Error('ENOENT /home/me/secret.txt')
  for (const run of [
    () => Promise.reject(inner),
    () => {
      throw inner
    },
  ]) {
    const error = await failure(runBounded(runtime(run), limits, call()))
    expect(error).toMatchObject({ code: 'AGENT_FAILED', message: 'the agent failed', cause: inner })
  }
  const nothing = runtime(async () => undefined as unknown as string)
  expect(await failure(runBounded(nothing, limits, call()))).toMatchObject({ message: 'the agent returned no text' })
})

test('a listener is left on no signal', async () => {
  const controller = new AbortController()
  const added = vi.spyOn(controller.signal, 'addEventListener')
  const removed = vi.spyOn(controller.signal, 'removeEventListener')
  await runBounded(
    runtime(async () => 'x'),
    limits,
    call(controller.signal),
  )
  expect(removed.mock.calls.map((args) => args[1])).toEqual(added.mock.calls.map((args) => args[1]))
})

test('a cancel counts until the runtime says that its work costs money, and no longer', async () => {
  const cancel = new AbortController()
  let committed = 0
  const committing = runtime(async ({ signal, onCommitted }) => {
    onCommitted?.()
    cancel.abort()
    return signal.aborted ? 'stopped' : 'kept'
  })
  const told = { ...call(cancel.signal), onCommitted: () => committed++ }
  expect([await runBounded(committing, limits, told), committed]).toEqual(['kept', 1])
})

test('a run that was canceled or is out of time is not committed any more', async () => {
  const cancel = new AbortController()
  let committed = 0
  const late = runtime(async ({ onCommitted }) => {
    cancel.abort()
    onCommitted?.()
    return 'late'
  })
  const told = { ...call(cancel.signal), onCommitted: () => committed++ }
  expect([(await failure(runBounded(late, limits, told))).code, committed]).toEqual(['AGENT_CANCELLED', 0])
})

test('a run that costs money still ends at its time limit', async () => {
  const endless = runtime(({ signal, onCommitted }) => {
    onCommitted?.()
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))))
  })
  const failed = failure(runBounded(endless, limits, call()))
  await vi.advanceTimersByTimeAsync(limits.timeoutMs)
  expect((await failed).code).toBe('AGENT_TIMEOUT')
})
