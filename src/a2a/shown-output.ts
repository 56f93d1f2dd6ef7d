import { AgentEvent, type ExecutionEventBus } from '@a2a-js/sdk/server'
import type { OnOutput } from '../agents/runtime.ts'
import { resultArtifact, type TaskIds } from './task-events.ts'

/** Under this the handler of a streaming request leaves that its caller looks on. */
export const SHOW_KEY = 'stoa.show'
/** Each piece makes the SDK store the task anew. */
const FLUSH_MS = 250

/** What an agent says while it works, as pieces of the artifact that will be its result. Only the last one counts. */
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
    /** @returns whether something was shown, which the result must now replace */
    end() {
      isOver = true
      clearTimeout(timer)
      return hasShown
    },
  }
}
