import { createHash } from 'node:crypto'
import { parseJson } from '../../lib/json.ts'
import { TASK_BYTES_MAX } from '../../schema/limits.ts'
import { PublicError } from './public-error.ts'

/** How a task is sent, and so how its result is answered. */
export type TaskForm = 'json' | 'text'

const utf8 = new TextDecoder('utf-8', { fatal: true })
const MEDIA_TYPE = /^\s*(application\/json|text\/plain)\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?$/i

/** @throws PublicError UNSUPPORTED_MEDIA_TYPE, also for bodies that are compressed */
export function taskForm(contentType: string | undefined, encoding: string | undefined): TaskForm {
  const type = MEDIA_TYPE.exec(contentType ?? '')?.[1]?.toLowerCase()
  const isPlain = encoding === undefined || encoding === 'identity'
  if (type !== undefined && isPlain) return type === 'application/json' ? 'json' : 'text'
  const fix =
    'send the task as Content-Type: application/json, {"task": "…"}, or as text/plain, in UTF-8, not compressed'
  throw new PublicError('UNSUPPORTED_MEDIA_TYPE', fix)
}

/** @throws PublicError INVALID_REQUEST, BODY_TOO_LARGE */
export function readTask(body: Buffer, form: TaskForm): string {
  const task = form === 'text' ? textOf(body) : taskIn(body)
  if (task === '') throw new PublicError('INVALID_REQUEST', 'the task is empty')
  const bytes = Buffer.byteLength(task)
  if (bytes <= TASK_BYTES_MAX) return task
  throw new PublicError('BODY_TOO_LARGE', `the task has ${bytes} bytes; the limit is ${TASK_BYTES_MAX}`)
}

function taskIn(body: Buffer): string {
  const json = parseJson(body)
  const task = typeof json === 'object' && json !== null && Object.hasOwn(json, 'task') ? json : undefined
  const text = (task as { task?: unknown } | undefined)?.task
  if (typeof text === 'string' && text.isWellFormed()) return text
  throw new PublicError('INVALID_REQUEST', 'the body must be JSON with the task as text: {"task": "…"}')
}

function textOf(body: Buffer): string {
  try {
    return utf8.decode(body)
  } catch {
    throw new PublicError('INVALID_REQUEST', 'the body is not text in UTF-8')
  }
}

/** What a payment is bound to: the same payment with another path, form or body buys nothing. */
export function requestDigest(path: string, form: TaskForm, body: Buffer): Uint8Array {
  return createHash('sha256').update(`POST\n${path}\n${form}\n`).update(body).digest()
}
