import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import type { UnixMs } from '../lib/clock.ts'
import { type ServerSentEvent, sendEvents } from '../lib/event-stream.ts'
import type { AnswerForm, AnswerHead, Usage } from './answer-forms.ts'
import { DoorError } from './door-error.ts'
import { sendJson, setHeaders } from './door-http.ts'
import type { LiveCall } from './live-call.ts'
import { type DoorRequest, refuseNoJson } from './request.ts'
import type { Served } from './serve.ts'
import { StopTexts } from './stop-texts.ts'

/** Bytes of a token of text, as a rule of thumb: an agent that is not paid by tokens does not count them. */
const BYTES_PER_TOKEN = 4

/** A request with the form of its answer. */
type Asked = { request: DoorRequest; form: AnswerForm; now: UnixMs }

export function sendWhole({ request, form, now }: Asked, response: ServerResponse, served: Served): void {
  const { agentId, result } = served
  if (request.wantsJson) refuseNoJson(result.output, result.order_id)
  const stops = new StopTexts(request.stop)
  const text = stops.take(result.output) + stops.end()
  setHeaders(response, servedHeaders(served))
  sendJson(response, form.whole(headOf(agentId, now), text, usageOf(request, text, served)))
}

type Running = {
  live: LiveCall
  ended: Promise<Served>
  signal: AbortSignal
  /** The client has got the whole answer, as far as this node can tell. */
  onGiven(served: Served): void
  /** The error that the client gets. */
  clientError(error: unknown): DoorError
}

/** Streams a call while it runs. An error before the stream begins is thrown, so it has a status of its own. */
export async function sendStream(asked: Asked, response: ServerResponse, running: Running): Promise<void> {
  const { live, ended, signal } = running
  await live.begun(ended)
  const served = await Promise.race([ended, Promise.resolve(undefined)])
  if (served !== undefined) setHeaders(response, servedHeaders(served))
  else if (live.agentId !== undefined) setHeaders(response, liveHeaders(live))
  await sendEvents(response, eventsOf(asked, running), signal)
}

async function* eventsOf({ request, form, now }: Asked, running: Running): AsyncGenerator<ServerSentEvent> {
  const { live, ended, clientError, onGiven } = running
  const stream = form.stream(headOf(live.agentId ?? request.models[0]!, now), request)
  const stops = new StopTexts(request.stop)
  let seen = ''
  let shown = ''
  const deltas = (text: string) => {
    shown += text
    return text === '' ? [] : stream.delta(text)
  }
  yield* stream.begin()
  try {
    // An answer that must be JSON is checked before it is shown.
    if (!request.wantsJson) {
      for await (const text of live.output(ended)) {
        seen += text
        yield* deltas(stops.take(text))
      }
    }
    const served = await ended
    const { output, order_id: orderId } = served.result
    if (request.wantsJson) refuseNoJson(output, orderId)
    const rest = restOf(output, seen)
    if (rest === undefined) throw differs(orderId)
    yield* deltas(stops.take(rest) + stops.end())
    yield* stream.end(shown, usageOf(request, shown, served))
    onGiven(served)
  } catch (error) {
    yield* stream.fail(clientError(error))
  }
}

function headOf(model: string, now: UnixMs): AnswerHead {
  return { id: randomUUID().replaceAll('-', ''), created: Math.floor(now / 1000), model }
}

/** What of a result was not shown yet. A result has no white space at its ends. Undefined: another text was shown. */
function restOf(output: string, seen: string): string | undefined {
  if (output.startsWith(seen)) return output.slice(seen.length)
  const text = seen.trimStart()
  if (output.startsWith(text)) return output.slice(text.length)
  return output === text.trimEnd() ? '' : undefined
}

/** An agent that shows one text and delivers another. The order has what was delivered. */
function differs(orderId: string | undefined): DoorError {
  const where = orderId === undefined ? '' : `: order ${orderId} has it (stoa order show ${orderId})`
  const message = `the result of the agent differs from what it showed while it worked${where}`
  return new DoorError(message, { status: 502, type: 'upstream_error', code: 'output_differs' })
}

function servedHeaders({ agentId, result, attempts }: Served): Record<string, string> {
  const { order_id: orderId, payment } = result
  return {
    'x-stoa-agent': agentId,
    'x-stoa-cost': payment?.amount ?? '0',
    'x-stoa-attempts': String(attempts),
    ...(orderId !== undefined && { 'x-stoa-order': orderId }),
  }
}

function liveHeaders({ agentId, attempts, orderId }: LiveCall): Record<string, string> {
  return {
    'x-stoa-agent': agentId!,
    'x-stoa-attempts': String(attempts),
    ...(orderId !== undefined && { 'x-stoa-order': orderId }),
  }
}

function usageOf({ task }: DoorRequest, text: string, { result: { payment } }: Served): Usage {
  const tokens = (of: string) => Math.ceil(Buffer.byteLength(of) / BYTES_PER_TOKEN)
  const { input_tokens: prompt = tokens(task), output_tokens: completion = tokens(text) } = payment?.units ?? {}
  return { prompt, completion, cost: Number(payment?.amount ?? '0'), isCut: payment?.cut === true }
}
