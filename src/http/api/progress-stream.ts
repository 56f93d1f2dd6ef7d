import * as z from 'zod'
import type { ServerSentEvent } from '../../lib/event-stream.ts'
import type { Logger } from '../../lib/logger.ts'
import { ExecutionResult } from '../../schema/api.ts'
import type { Caller } from '../../schema/caller.ts'
import type { ExecutionProgress, OnProgress } from '../../schema/execution.ts'
import { problemFor } from '../server/problem.ts'
import { EventStream } from './operation.ts'

/** Returns true if a client asks for the output while the agent works. */
export function wantsStream(accept: string | undefined): boolean {
  return accept?.includes('text/event-stream') === true && !accept.includes('application/json')
}

/**
 * An execution as events: `status` and `output` while it runs, then `result` or `error`. An error before the first
 * event is thrown. Output that a slow client has not read is joined, so the agent never waits and the buffer holds at
 * most one result.
 */
export async function progressStream(
  execute: (onProgress: OnProgress) => Promise<ExecutionResult>,
  { caller, logger }: { caller: Caller; logger: Logger },
): Promise<EventStream> {
  const waiting: ExecutionProgress[] = []
  let ended: { result: ExecutionResult } | { error: unknown } | undefined
  let wake = () => {}
  const changed = () =>
    new Promise<void>((resolve) => {
      wake = resolve
    })
  const first = changed()
  execute((progress) => {
    const last = waiting.at(-1)
    if (progress.type === 'output' && last?.type === 'output') last.data.text += progress.data.text
    else waiting.push(progress)
    wake()
  }).then(
    (result) => {
      ended = { result }
      wake()
    },
    (error: unknown) => {
      ended = { error }
      wake()
    },
  )
  await first
  if (ended !== undefined && 'error' in ended && waiting.length === 0) throw ended.error

  async function* events(): AsyncGenerator<ServerSentEvent> {
    for (;;) {
      const progress = waiting.shift()
      if (progress !== undefined) yield { event: progress.type, data: progress.data }
      else if (ended === undefined) await changed()
      else break
    }
    if ('result' in ended) yield { event: 'result', data: z.encode(ExecutionResult, ended.result) }
    else yield { event: 'error', data: problemFor(ended.error, { operation: 'execute', caller }, logger) }
  }
  return new EventStream(events())
}
