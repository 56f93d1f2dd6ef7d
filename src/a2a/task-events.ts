import { randomUUID } from 'node:crypto'
import { type Artifact, type Message, type Part, Role, type TaskState, type TaskStatus } from '@a2a-js/sdk'
import { isoTime, type UnixMs } from '../lib/clock.ts'
import type { Metadata } from './payment-messages.ts'

/** The result of an agent, as the only artifact of its task. */
export function resultArtifact(output: string | object, bytes?: Buffer): Artifact {
  return {
    artifactId: 'result',
    name: 'result',
    description: '',
    parts: [
      typeof output === 'string' ? textPart(output) : dataPart(output),
      ...(bytes === undefined ? [] : [bytesPart(bytes)]),
    ],
    metadata: undefined,
    extensions: [],
  }
}

export type TaskIds = { taskId: string; contextId: string }

export function statusOf(
  state: TaskState,
  ids: TaskIds,
  now: UnixMs,
  said: { text?: string; metadata?: Metadata; extensions?: string[]; parts?: Part[] } = {},
): TaskStatus {
  const { text, metadata, extensions = [], parts = text === undefined ? [] : [textPart(text)] } = said
  const message: Message | undefined =
    parts.length === 0 && metadata === undefined
      ? undefined
      : { ...ids, messageId: randomUUID(), role: Role.ROLE_AGENT, parts, metadata, extensions, referenceTaskIds: [] }
  return { state, message, timestamp: isoTime(now) }
}

export function textPart(text: string): Part {
  return { content: { $case: 'text', value: text }, mediaType: 'text/plain', filename: '', metadata: undefined }
}

function dataPart(data: object): Part {
  return { content: { $case: 'data', value: data }, mediaType: 'application/json', filename: '', metadata: undefined }
}

function bytesPart(bytes: Buffer): Part {
  const content = { $case: 'raw', value: bytes } as const
  return { content, mediaType: 'application/octet-stream', filename: 'output', metadata: undefined }
}
