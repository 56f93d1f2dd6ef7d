import { parseJson } from '../lib/json.ts'
import { encodeTextFrame, type Frame } from '../protocols/frame.ts'
import type { FramedStream } from '../protocols/framed-stream.ts'
import type { fromSeller, fromWorker, WorkMessage, WorkMessageType } from '../schema/work.ts'
import { workMessages } from '../schema/work.ts'
import { WorkError } from './work-error.ts'

type Messages = typeof fromWorker | typeof fromSeller
type AnyOf<M extends Messages> = {
  [T in keyof M & WorkMessageType]: { type: T; message: WorkMessage<T> }
}[keyof M & WorkMessageType]

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** @param messages those that the peer may send. @throws WorkError INVALID_MESSAGE */
export function parseWork<M extends Messages>(frame: Frame, messages: M): AnyOf<M> {
  if (!Object.hasOwn(messages, frame.type)) {
    throw new WorkError('INVALID_MESSAGE', `unknown message type ${JSON.stringify(frame.type)}`)
  }
  const type = frame.type as WorkMessageType
  const parsed = workMessages[type].safeParse(parseJson(frame.data))
  if (parsed.success) return { type, message: parsed.data } as AnyOf<M>
  const [issue] = parsed.error.issues
  throw new WorkError('INVALID_MESSAGE', `${type}: ${issue!.path.join('.') || 'message'}: ${issue!.message}`)
}

export function writeWork<T extends WorkMessageType>(
  stream: FramedStream,
  type: T,
  message: WorkMessage<T>,
  signal: AbortSignal,
): Promise<void> {
  return stream.writeText(type, JSON.stringify(message), signal)
}

/** A message as the bytes of its frame. @throws FrameError if no frame can carry it */
export function encodeWork<T extends WorkMessageType>(type: T, message: WorkMessage<T>): Uint8Array {
  return encodeTextFrame(type, JSON.stringify(message))
}

export function bodyOf(text: string): string {
  return Buffer.from(text).toString('base64')
}

/** @throws WorkError INVALID_MESSAGE */
export function textOf(body: string): string {
  try {
    return utf8.decode(Buffer.from(body, 'base64'))
  } catch (cause) {
    throw new WorkError('INVALID_MESSAGE', 'body is not the base64 of UTF-8 text', { cause })
  }
}
