import * as z from 'zod'
import { countText } from '../../config/values.ts'
import { CodedError } from '../../lib/errors.ts'
import { orAborted } from '../../lib/wait.ts'
import type { ChannelWish } from '../../schema/channel.ts'
import { IdempotencyKey } from '../../schema/idempotency.ts'
import { KEY_HOURS, TASK_BYTES_MAX } from '../../schema/limits.ts'
import { flag, option } from '../command.ts'
import { UsageError } from '../exit-code.ts'
import type { Io } from '../io.ts'

/** The two names of the task option (D17). */
export const taskOptions = {
  task: option('-t, --task <text>', 'the task; - reads it from standard input', z.string()),
  input: option('--input <text>', 'the same as --task', z.string()),
} as const

/**
 * Option for the idempotency key, so that the request is done once (D38). Without it, our client sends a key of its
 * own.
 */
export function keyOption(what: 'order' | 'task' | 'workflow') {
  return {
    idempotencyKey: option(
      '--idempotency-key <key>',
      `key of this request: a repeat with the same key and ${what} within ${KEY_HOURS} hours buys nothing again (default: a new key)`,
      IdempotencyKey,
    ),
  } as const
}

/** How long a caller waits for a result, if it does not say. */
export const WAIT_SECONDS = 600

export const waitOptions = {
  timeout: option('--timeout <seconds>', `stop waiting after this time (default: ${WAIT_SECONDS})`, countText(86_400)),
} as const

/** Reads the task from exactly one of --task, --input and `-`. */
export async function readTask(
  io: Io,
  given: { task: string | undefined; input: string | undefined; dash?: string | undefined },
): Promise<string> {
  const texts = [given.task, given.input, given.dash].filter((text) => text !== undefined)
  if (texts.length === 0) {
    throw new UsageError('the task is missing: give it with --task <text>, or - to read it from standard input')
  }
  if (texts.length > 1) throw new UsageError('more than one task is given: use only one of --task, --input and -')
  const text = texts[0] === '-' ? await readAll(io) : (texts[0] ?? '')
  if (text.trim() === '') throw new UsageError('the task is empty')
  if (Buffer.byteLength(text) > TASK_BYTES_MAX) throw tooLarge()
  return text
}

/** Reads standard input as text, up to the maximum length of a task. */
export async function readAll(io: Io): Promise<string> {
  if (io.stdin.isTty) io.stderr.write('reading the task from the terminal; press Ctrl-D at its end\n')
  const chunks: Uint8Array[] = []
  let length = 0
  const read = async () => {
    for await (const chunk of io.stdin) {
      length += chunk.length
      if (length > TASK_BYTES_MAX) throw tooLarge()
      chunks.push(chunk)
    }
  }
  await orAborted(read(), io.signal)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks))
  } catch {
    throw new UsageError('the task on standard input is not UTF-8 text')
  }
}

function tooLarge(): CodedError<'INPUT_TOO_LARGE'> {
  return new CodedError('INPUT_TOO_LARGE', `the task is larger than ${TASK_BYTES_MAX} bytes: shorten it, or split it`)
}

/** Whether a call is to be paid for on a payment channel. */
export const channelOptions = {
  channel: flag('--channel', 'open a payment channel to the seller, if there is none, and pay by it'),
  noChannel: flag('--no-channel', 'pay for this call by itself, also if there is a payment channel'),
} as const

/** Both flags have one name: the second one sets it to false. */
export function channelWish(channel: boolean | undefined): { channel?: ChannelWish } {
  return channel === undefined ? {} : { channel: channel ? 'always' : 'never' }
}
