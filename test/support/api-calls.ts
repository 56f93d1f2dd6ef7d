import { until } from './until.ts'

type CallOptions = { method?: string; body?: object; headers?: Record<string, string>; signal?: AbortSignal }

/** Calls a node's API over its real port, and returns status and body. */
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

/** Calls the API and returns the body. Any answer but a success fails the test. */
export async function ask<T>(url: string, path: string, options: CallOptions = {}): Promise<T> {
  const { status, body } = await call(url, path, options)
  if (status >= 400) throw new Error(`${options.method ?? ''} ${path} was answered ${status}: ${JSON.stringify(body)}`)
  return body as T
}

/** Waits until the node knows an agent. */
export async function discovered(url: string, agentId: string): Promise<void> {
  await until(async () => (await call(url, `/agents/${agentId}`)).status === 200, { everyMs: 50 })
}
