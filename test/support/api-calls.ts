import { until } from './until.ts'

type CallOptions = { method?: string; body?: object; headers?: Record<string, string>; signal?: AbortSignal }

/** Asks a node's API over its real port, and gives status and body. */
export async function call(
  url: string,
  path: string,
  { method, body, headers, signal }: CallOptions = {},
): Promise<{ status: number; body: unknown }> {
  const response = await fetch(url + path, {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    ...(signal && { signal }),
  })
  return { status: response.status, body: await response.json() }
}

/** The body of an answer that must be a success. */
export async function ask<T>(url: string, path: string, options: CallOptions = {}): Promise<T> {
  const { status, body } = await call(url, path, options)
  if (status >= 400) throw new Error(`${options.method ?? ''} ${path} was answered ${status}: ${JSON.stringify(body)}`)
  return body as T
}

/** Waits until the node has heard of an agent. */
export async function discovered(url: string, agentId: string): Promise<void> {
  await until(async () => (await call(url, `/agents/${agentId}`)).status === 200, { timeoutMs: 20_000, everyMs: 50 })
}
