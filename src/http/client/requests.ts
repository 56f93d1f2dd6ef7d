import type * as z from 'zod'

export type Options = { signal?: AbortSignal; timeoutMs?: number; idempotencyKey?: string | undefined }
export type PageOptions = { limit?: number | undefined; cursor?: string | undefined }

export type Requests = {
  request<T extends z.ZodType>(
    path: string,
    response: T,
    options?: Options,
    body?: object,
    method?: 'DELETE' | 'PATCH' | 'POST' | 'PUT',
  ): Promise<z.output<T>>
  linked<T extends z.ZodType>(
    path: string,
    query: object,
    response: T,
    options?: Options,
  ): Promise<{ body: z.output<T>; next: string | undefined }>
}

/** Builds a path. Each id is encoded as one segment. */
export function at(...segments: string[]): string {
  return segments.map((segment) => `/${encodeURIComponent(segment)}`).join('')
}
