import { until } from './until.ts'

/** Asks a node's API over its real port, and gives status and body. */
export async function call(
  url: string,
  path: string,
  { method, body }: { method?: string; body?: object } = {},
): Promise<{ status: number; body: unknown }> {
  const response = await fetch(url + path, {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    ...(body !== undefined && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  })
  return { status: response.status, body: await response.json() }
}

/** The body of an answer that must be a success. */
export async function ask<T>(url: string, path: string, options: { method?: string; body?: object } = {}): Promise<T> {
  const { status, body } = await call(url, path, options)
  if (status >= 400) throw new Error(`${options.method ?? ''} ${path} was answered ${status}: ${JSON.stringify(body)}`)
  return body as T
}

/** Waits until the node has heard of an agent. */
export async function discovered(url: string, agentId: string): Promise<void> {
  await until(async () => (await call(url, `/agents/${agentId}`)).status === 200, { timeoutMs: 20_000, everyMs: 50 })
}
