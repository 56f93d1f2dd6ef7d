import type * as z from 'zod'

export type Options = { signal?: AbortSignal; timeoutMs?: number; idempotencyKey?: string | undefined }
export type PageOptions = { limit?: number | undefined; cursor?: string | undefined }

/** How the groups of calls reach the node. */
export type Requests = {
  request<T extends z.ZodType>(
    path: string,
    response: T,
    options?: Options,
    body?: object,
    method?: 'DELETE' | 'PATCH' | 'POST' | 'PUT',
  ): Promise<z.output<T>>
  /** An answer that may be followed by another, and the cursor of that. */
  linked<T extends z.ZodType>(
    path: string,
    query: object,
    response: T,
    options?: Options,
  ): Promise<{ body: z.output<T>; next: string | undefined }>
}

/** An id is one segment of the path, whatever it holds. */
export function at(...segments: string[]): string {
  return segments.map((segment) => `/${encodeURIComponent(segment)}`).join('')
}
