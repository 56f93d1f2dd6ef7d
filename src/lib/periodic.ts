import type { Service } from './lifecycle.ts'

/** How long a turn that is asked for waits, so that changes in a short time are one. */
const SOON_MS = 100

export type Periodic = Service & {
  /** Begins the next turn within 100 ms, or that long after the present one. */
  soon(): void
}

/** A service that repeats one task at an interval, never twice at the same time. Errors of `work` go to `onError`. */
export function periodic(
  options: { name: string; firstMs: number; everyMs: number },
  deps: { work(): Promise<void>; onError(error: unknown): void },
): Periodic {
  let timer: NodeJS.Timeout | undefined
  let state: 'new' | 'waiting' | 'due' | 'working' | 'hurried' | 'stopped' = 'new'
  let turn: Promise<void> = Promise.resolve()
  const schedule = (inMs: number) => {
    if (state === 'stopped') return
    state = 'waiting'
    clearTimeout(timer)
    timer = setTimeout(() => {
      state = 'working'
      turn = deps
        .work()
        .catch(deps.onError)
        .finally(() => schedule(state === 'hurried' ? SOON_MS : options.everyMs))
    }, inMs)
    timer.unref()
  }
  return {
    name: options.name,
    async start() {
      schedule(options.firstMs)
    },
    soon() {
      if (state === 'working') state = 'hurried'
      if (state !== 'waiting') return
      schedule(SOON_MS)
      state = 'due'
    },
    async stop() {
      state = 'stopped'
      clearTimeout(timer)
      await turn
    },
  }
}
