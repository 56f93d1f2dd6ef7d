import { randomUUID } from 'node:crypto'
import * as z from 'zod'
import { CodedError } from '../../lib/errors.ts'
import { parseJson, UNLIMITED } from '../../lib/json.ts'
import { doubledMs } from '../../lib/retry.ts'
import { pause } from '../../lib/wait.ts'
import type { ExecutionResult, Problem } from '../../schema/api.ts'
import { type EventType, type NodeEvent, nodeEvents } from '../../schema/events.ts'
import { type ExecutionProgress, executionEvents, type OnProgress } from '../../schema/execution.ts'
import { ApiError } from './api-error.ts'
import { type ReadEvent, readEvents } from './read-events.ts'
import { bodyOf, type ExecuteCall } from './requests.ts'

type EventsOptions = {
  /** Default: all types. */
  types?: readonly EventType[] | undefined
  /** Resumes after the event with this id. */
  after?: string | undefined
  signal?: AbortSignal | undefined
  /** Called each time the connection is lost. The client then reconnects. */
  onLost?(error: unknown): void
}

export type StreamCalls = {
  /**
   * Yields the node's events until the signal aborts. Reconnects after a lost connection without missing events. A
   * `reset` event means that events were missed and the caller must load everything again. Throws if the first
   * connection fails, or if reconnecting cannot help.
   */
  events(options?: EventsOptions): AsyncGenerator<NodeEvent>
  /** Executes a task and shows its progress. Aborting the signal cancels it. Throws like `execute`. */
  executeStreamed(call: StreamedCall): Promise<ExecutionResult>
}

type StreamedCall = ExecuteCall & { signal?: AbortSignal | undefined; onProgress: OnProgress }

export type OpenStream = (
  path: string,
  options: { signal?: AbortSignal | undefined; headers?: Record<string, string>; body?: object },
) => Promise<AsyncIterable<Uint8Array>>

/** A node sends a keep-alive at least every 15 s. */
const SILENCE_MS = 45_000
const RETRY = { firstMs: 250, mostMs: 5_000 }

export function streamCalls(open: OpenStream): StreamCalls {
  return {
    async executeStreamed({ idempotencyKey = randomUUID(), signal, onProgress, ...task }) {
      const life = signOfLife(signal)
      try {
        const headers = { 'idempotency-key': idempotencyKey }
        const stream = await open('/execute', { signal: life.signal, headers, body: bodyOf(task) })
        for await (const read of readEvents(stream, life.seen)) {
          const { event, data } = parseExecution(read)
          if (event === 'result') return data as ExecutionResult
          if (event === 'error') throw new ApiError(data as Problem)
          if (event !== undefined) onProgress({ type: event, data } as ExecutionProgress)
        }
      } catch (error) {
        if (error instanceof CodedError) throw error
        signal?.throwIfAborted()
        throw connectionLost(error)
      } finally {
        life.end()
      }
      throw connectionLost(undefined)
    },
    async *events({ types, after, signal, onLost = () => {} } = {}) {
      const path = types === undefined ? '/events' : `/events?types=${types.join(',')}`
      let last = after
      let failures = 0
      let isFirst = true
      const hasStopped = () => signal?.aborted === true
      while (!hasStopped()) {
        const life = signOfLife(signal)
        try {
          const headers = last === undefined ? {} : { 'last-event-id': last }
          const body = await open(path, { signal: life.signal, headers })
          isFirst = false
          for await (const read of readEvents(body, life.seen)) {
            failures = 0
            last = read.id ?? last
            const event = parseEvent(read)
            if (event !== undefined) yield event
          }
          onLost(new CodedError('API_CONNECTION_LOST', 'the node ended the stream'))
        } catch (error) {
          if (hasStopped()) return
          if (isFirst || !mayPass(error)) throw error
          onLost(error)
        } finally {
          life.end()
        }
        await pause(doubledMs(++failures, RETRY), signal)
      }
    },
  }
}

/** Ends a connection that has gone silent, without even a heartbeat. */
function signOfLife(outer: AbortSignal | undefined) {
  const silent = new AbortController()
  const timer = setTimeout(() => silent.abort(new Error('the node was silent for too long')), SILENCE_MS)
  timer.unref()
  const signal = outer === undefined ? silent.signal : AbortSignal.any([outer, silent.signal])
  return { signal, seen: () => void timer.refresh(), end: () => clearTimeout(timer) }
}

/** Returns true if a retry may help: the node is unreachable or overloaded. A refusal stays a refusal. */
function mayPass(error: unknown): boolean {
  const status = (error as { status?: unknown }).status
  return typeof status !== 'number' || status === 429 || status >= 500
}

/** Unknown types, from a later version of the node, are skipped. */
function parseEvent({ id, event, data }: ReadEvent): NodeEvent | undefined {
  if (event === 'reset') return { id: id ?? '', type: 'reset' }
  if (!Object.hasOwn(nodeEvents, event)) return undefined
  const type = event as EventType
  const parsed = z.safeDecode(nodeEvents[type] as z.ZodType, parseJson(data, UNLIMITED) as never)
  return parsed.success ? ({ id: id ?? '', type, data: parsed.data } as NodeEvent) : undefined
}

function parseExecution({ event, data }: ReadEvent): { event?: keyof typeof executionEvents; data: unknown } {
  if (!Object.hasOwn(executionEvents, event)) return { data: undefined }
  const name = event as keyof typeof executionEvents
  const parsed = z.safeDecode(executionEvents[name] as z.ZodType, parseJson(data, UNLIMITED) as never)
  if (parsed.success) return { event: name, data: parsed.data }
  throw new CodedError('API_ANSWER_INVALID', `the node sent ${name} in a form that this version does not know`)
}

function connectionLost(cause: unknown): CodedError {
  const lost = 'the connection was lost before the result arrived. The request may have been done'
  return new CodedError('API_CONNECTION_LOST', lost, { cause })
}
