import type { IncomingMessage } from 'node:http'
import * as z from 'zod'
import { parseJsonBody, readBytes } from '../lib/json-body.ts'
import { BODY_BYTES_MAX } from '../schema/limits.ts'

/** A parsed body, or why it was not taken. `empty`: there was no body. `invalid`: it is JSON of another shape than A2A's. */
export type Body =
  | { kind: 'json'; value: unknown }
  | { kind: 'empty' }
  | { kind: 'invalid'; value: unknown; reason: string }
  | { kind: 'unsupported' | 'malformed'; reason: string }

const jsonTypes = /^application\/(?:a2a\+)?json *(?:;.*)?$/i

/**
 * Reads a request's JSON body up to the size limit. Refuses every other content type, even if the body would parse: a
 * page of any origin may send a form or `text/plain` (T11). @throws CodedError `BODY_TOO_LARGE`
 */
export async function readBody(request: IncomingMessage): Promise<Body> {
  const { 'content-type': type, 'content-encoding': encoding } = request.headers
  const bytes = await readBytes(request, BODY_BYTES_MAX)
  if (bytes.length === 0) return { kind: 'empty' }
  if (!jsonTypes.test(type ?? '')) {
    return { kind: 'unsupported', reason: 'send the body as Content-Type: application/json' }
  }
  if (encoding !== undefined && encoding !== 'identity') {
    return { kind: 'unsupported', reason: 'send the body without Content-Encoding' }
  }
  const body = parseJsonBody(bytes)
  if (!body.ok) return { kind: 'malformed', reason: body.reason }
  const shape = Shape.safeParse(body.value)
  if (shape.success) return { kind: 'json', value: body.value }
  const { path, message } = shape.error.issues[0]!
  return { kind: 'invalid', value: body.value, reason: `${path.join('.') || 'the body'}: ${message}` }
}

/*
 * Checks what the SDK takes for granted, and leaves all else to the SDK. At a part that is null the SDK throws a TypeError,
 * which callers would take for a fault of this node. It converts any value to text, which changes the task that is paid for.
 */
const string = z.string('must be a string')
const text = string.nullish()
const texts = z.array(string, 'must be a list').nullish()
/** Checks an object by `shape`, and lets any other value through. */
const ifObject = (shape: z.ZodType) =>
  z
    .unknown()
    .optional()
    .superRefine((value, context) => {
      if (typeof value !== 'object' || value === null || Array.isArray(value)) return
      addIssues(context, shape.safeParse(value))
    })
const File = z.looseObject({ bytes: string.optional(), uri: text }, 'must be an object')
const Part = z
  .looseObject({ kind: z.unknown().optional(), text, raw: text, file: z.unknown().optional() }, 'must be an object')
  .superRefine(({ kind, file }, context) => {
    if (kind === 'file' || file != null) addIssues(context, File.safeParse(file), 'file')
  })
const parts = z.array(Part, 'must be a list').nullish()
const Message = z.looseObject({ parts, content: parts, extensions: texts, referenceTaskIds: texts })
const sent = { message: ifObject(Message), configuration: ifObject(z.looseObject({ acceptedOutputModes: texts })) }
const Shape = ifObject(
  z
    .looseObject({ ...sent, method: z.unknown().optional(), params: ifObject(z.looseObject({ ...sent, id: text })) })
    .superRefine(({ method, params }, context) => {
      if (method !== 'tasks/pushNotificationConfig/set') return
      const config = z.looseObject({ pushNotificationConfig: z.looseObject({}) }).safeParse(params)
      if (!config.success)
        context.addIssue({ code: 'custom', path: ['params'], message: 'lacks pushNotificationConfig' })
    }),
)

function addIssues(context: z.core.$RefinementCtx, { error }: z.ZodSafeParseResult<unknown>, ...at: string[]): void {
  for (const { path, message } of error?.issues ?? []) {
    context.addIssue({ code: 'custom', path: [...at, ...path], message })
  }
}
