import type { Service } from './lifecycle.ts'

/** A service that repeats one task at an interval, never twice at the same time. Errors of `work` go to `onError`. */
export function periodic(
  options: { name: string; firstMs: number; everyMs: number },
  deps: { work(): Promise<void>; onError(error: unknown): void },
): Service {
  let timer: NodeJS.Timeout | undefined
  let stopped = false
  let turn: Promise<void> = Promise.resolve()
  const schedule = (inMs: number) => {
    if (stopped) return
    timer = setTimeout(() => {
      turn = deps
        .work()
        .catch(deps.onError)
        .finally(() => schedule(options.everyMs))
    }, inMs)
    timer.unref()
  }
  return {
    name: options.name,
    async start() {
      schedule(options.firstMs)
    },
    async stop() {
      stopped = true
      clearTimeout(timer)
      await turn
    },
  }
}
