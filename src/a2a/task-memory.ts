import type { Task } from '@a2a-js/sdk'

/** Messages of a task that are kept beside the first, which is the task itself. */
const LATEST_KEPT = 8

/**
 * A task with the first of its messages and the latest. Its caller may answer it without end and pay nothing, and each answer
 * copies all messages several times (T31).
 */
export function withLatest(task: Task): Task {
  const [first, ...more] = task.history
  if (first === undefined || more.length <= LATEST_KEPT) return task
  return { ...task, history: [first, ...more.slice(-LATEST_KEPT)] }
}

/** Estimates the memory of a task: its texts. */
export function sizeOf(task: Task): number {
  const messages = [...task.history, ...(task.status?.message === undefined ? [] : [task.status.message])]
  const parts = [...messages, ...task.artifacts].flatMap((holder) => holder.parts)
  let bytes = 1024
  for (const { content } of parts) {
    if (content?.$case === 'text' || content?.$case === 'url') bytes += content.value.length * 2
    else if (content !== undefined) bytes += JSON.stringify(content.value ?? null).length * 2
  }
  for (const { metadata } of messages) bytes += JSON.stringify(metadata ?? null).length * 2
  return bytes
}

/**
 * A copy of a task that the SDK may change. Texts and bytes are shared: nobody changes them, and to copy a long task takes
 * longer than a short request may cost (T31).
 */
export function copyOf<T>(value: T): T {
  if (Array.isArray(value)) return value.map(copyOf) as T
  if (!isPlain(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, copyOf(part)])) as T
}

function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
