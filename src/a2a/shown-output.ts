import { AgentEvent, type ExecutionEventBus } from '@a2a-js/sdk/server'
import type { OnOutput } from '../agents/runtime.ts'
import { resultArtifact, type TaskIds } from './task-events.ts'

/** Context key set by the handler of a streaming request: the caller watches. */
export const SHOW_KEY = 'stoa.show'
/** Interval between pieces, because the SDK stores the task with each piece. */
const FLUSH_MS = 250

/** Sends an agent's output as partial updates of its result artifact. Only the final artifact counts. */
export function showOutput(ids: TaskIds, bus: ExecutionEventBus): { onOutput: OnOutput; end(): boolean } {
  let waiting = ''
  let hasShown = false
  let isOver = false
  let timer: NodeJS.Timeout | undefined

  function flush(): void {
    timer = undefined
    const artifact = resultArtifact(waiting)
    bus.publish(
      AgentEvent.artifactUpdate({ ...ids, artifact, append: hasShown, lastChunk: false, metadata: undefined }),
    )
    hasShown = true
    waiting = ''
  }

  return {
    onOutput(text) {
      if (isOver) return
      waiting += text
      timer ??= setTimeout(flush, FLUSH_MS).unref()
    },
    /** @returns true if output was shown, which the result must now replace */
    end() {
      isOver = true
      clearTimeout(timer)
      return hasShown
    },
  }
}
