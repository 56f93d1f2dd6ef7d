import type { ListTasksRequest, ListTasksResponse, Task } from '@a2a-js/sdk'
import { RequestMalformedError } from '@a2a-js/sdk/errors'
import { copyOf } from './task-memory.ts'

const PAGE_SIZE = 50

/** One page of these tasks, newest first, as the specification says. The cursor is the id of the last task of the page before. */
export function pageOf(tasks: readonly Task[], query: ListTasksRequest): ListTasksResponse {
  const { contextId, status, statusTimestampAfter, pageToken, pageSize = PAGE_SIZE, includeArtifacts } = query
  const after = statusTimestampAfter ? Date.parse(statusTimestampAfter) : undefined
  const found = tasks
    .filter((task) => !contextId || task.contextId === contextId)
    .filter((task) => !status || task.status?.state === status)
    .filter((task) => after === undefined || timeOf(task) > after)
    .sort((a, b) => timeOf(b) - timeOf(a) || (a.id < b.id ? 1 : -1))
  const start = pageToken ? found.findIndex(({ id }) => id === decodeToken(pageToken)) + 1 : 0
  const page = found.slice(start, start + pageSize)
  const isLast = start + page.length >= found.length
  return {
    tasks: page.map((task) => copyOf(includeArtifacts ? task : { ...task, artifacts: [] })),
    nextPageToken: isLast ? '' : Buffer.from(page.at(-1)?.id ?? '').toString('base64url'),
    pageSize,
    totalSize: found.length,
  }
}

/** A task without a time is one on which another process works now. */
function timeOf({ status }: Task): number {
  return status?.timestamp === undefined ? Number.MAX_SAFE_INTEGER : Date.parse(status.timestamp) || 0
}

function decodeToken(token: string): string {
  const id = Buffer.from(token, 'base64url').toString()
  if (!/^[0-9a-f-]{36}$/.test(id)) throw new RequestMalformedError('pageToken is not a cursor of this list')
  return id
}
