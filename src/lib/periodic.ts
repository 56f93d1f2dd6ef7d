import type { Service } from './lifecycle.ts'

/** A service that does one thing every so often, never twice at once. What `work` throws goes to `onError`. */
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
