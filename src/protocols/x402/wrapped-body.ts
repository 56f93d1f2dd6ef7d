import * as z from 'zod'
import { parseJson } from '../../lib/json.ts'
import { TASK_BYTES_MAX } from '../../schema/limits.ts'
import type { PeerError } from '../peer-error.ts'

/**
 * Bodies of the original node of this protocol: `{"resource","input"}` in requests, `{"output"}` in answers. Stoa sends
 * plain text, accepts both forms, and answers in the form of the request.
 */
const Wrapped = z.strictObject({ resource: z.string(), input: z.string() })
const WrappedOutput = z.strictObject({ output: z.string() })

export function wrapTask(resource: string, input: string): string {
  return JSON.stringify({ resource, input })
}

/** True if the wrapped task fits into a message. JSON may need up to six bytes for a character. */
export function fitsWrapped({ resource, task }: { resource: string; task: string }): boolean {
  return Buffer.byteLength(wrapTask(resource, task)) <= TASK_BYTES_MAX
}

export class TaskTooLong extends Error {
  override name = 'TaskTooLong'
  constructor() {
    super('the task is too long for one message once it is written as JSON')
  }
}

/** The task of a wrapped body. Undefined for any other text, and for JSON that names another agent. */
export function unwrapTask(body: string, resource: string): string | undefined {
  // Parse only text that can be a wrapped body, because a task may be megabytes of JSON.
  if (!body.trimStart().startsWith('{') || !body.includes('"resource"')) return undefined
  const parsed = Wrapped.safeParse(parseJson(body))
  return parsed.success && parsed.data.resource === resource ? parsed.data.input : undefined
}

export function wrapOutput(output: string): string {
  return JSON.stringify({ output })
}

/** @returns the output of a wrapped body as base64, or the body as it is */
export function unwrapOutput(body: string): string {
  const parsed = WrappedOutput.safeParse(parseJson(Buffer.from(body, 'base64').toString()))
  return parsed.success ? Buffer.from(parsed.data.output).toString('base64') : body
}

/** True if the seller refused a paid request because of its body, before it charged anything. */
export function asksForWrapped(error: PeerError): boolean {
  return error.code === 'INVALID_MESSAGE' && /missing resource in body/i.test(error.message)
}
