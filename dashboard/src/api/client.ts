import { connection } from './connection.ts'
import { keyFor } from './request-keys.ts'
import { authorization } from './token.ts'
import type { Problem } from './types.ts'

/** The node's error response (RFC 9457). */
export class ApiProblem extends Error {
  readonly status: number
  readonly code: string
  readonly problem: Problem

  constructor(problem: Problem) {
    super(problem.detail)
    this.status = problem.status
    this.code = problem.code
    this.problem = problem
  }
}

/** The node did not answer. */
export class NodeGone extends Error {}

export type Page<T> = { items: T[]; next: string | undefined }
type Sent = {
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  body?: object
  signal?: AbortSignal
  token?: string
}

const API = '/api'

/** True if the node lacks this operation, because the node is older or was built without it. */
export function isMissing(error: unknown): boolean {
  return error instanceof ApiProblem && (error.code === 'NOT_FOUND' || error.code === 'METHOD_NOT_ALLOWED')
}

/** @throws ApiProblem, NodeGone, or the reason of `signal` when the signal aborts */
export async function send(path: string, { method = 'GET', body, signal, token }: Sent = {}): Promise<Response> {
  let response: Response
  const key = body && keyFor(path, body)
  try {
    response = await fetch(API + path, {
      method,
      headers: {
        ...authorization(token),
        ...(body && { 'content-type': 'application/json' }),
        ...(key && { 'idempotency-key': key.text }),
      },
      ...(body && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
      // The token may allow every operation of this API, so it must not follow a redirect.
      redirect: 'error',
      credentials: 'omit',
    })
  } catch (error) {
    if (signal?.aborted) throw error
    connection.lost()
    throw new NodeGone('The node does not answer.')
  }
  // After an unreliable answer we do not know whether the operation ran. The next try sends the same key.
  if (response.status < 500) key?.done()
  if (response.status === 401 && token === undefined) connection.refused()
  else connection.answered()
  if (response.ok) return response
  throw new ApiProblem(await readProblem(response))
}

export async function call<T>(path: string, sent?: Sent): Promise<T> {
  const response = await send(path, sent)
  const text = await response.text()
  return (text === '' ? undefined : JSON.parse(text)) as T
}

/** One part of a list. `next` is the cursor of the next part. */
export async function page<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<Page<T>> {
  const response = await send(path + queryText(query), signal && { signal })
  const target = /<\?([^>]*)>; *rel="next"/.exec(response.headers.get('link') ?? '')?.[1]
  const next = target === undefined ? undefined : (new URLSearchParams(target).get('cursor') ?? undefined)
  return { items: (await response.json()) as T[], next }
}

export type Query = Record<string, string | number | boolean | undefined>

export function queryText(query: Query): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '')
  return given.length === 0 ? '' : `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`
}

/** Saves the node's answer as a file. A plain link could not send the token. */
export async function download(path: string, name: string): Promise<void> {
  const response = await send(path)
  const url = URL.createObjectURL(await response.blob())
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}

async function readProblem(response: Response): Promise<Problem> {
  const text = await response.text().catch(() => '')
  try {
    const problem = JSON.parse(text) as Problem
    if (typeof problem.detail === 'string') return problem
  } catch {
    // A proxy between this page and the node answered.
  }
  const { status } = response
  const detail = `The node sent an answer with status ${status} that cannot be read. Reload the page.`
  return { type: 'about:blank', title: 'Unreadable answer', status, detail, code: 'ANSWER_INVALID' }
}
