import { InvitedWorker, InviteWorker, WorkerParams, WorkerRecord, WorkerRecords } from '../../../schema/worker.ts'
import type { WorkerRoll } from '../../../workers/worker-roll.ts'
import { type Operation, operation } from '../operation.ts'

const shared = { tags: ['workers'], access: 'private', scope: 'admin' } as const

export function workerRoutes(workers: Pick<WorkerRoll, 'invite' | 'list' | 'revoke'>): Operation[] {
  return [
    operation({
      ...shared,
      id: 'listWorkers',
      method: 'GET',
      path: '/workers',
      summary: 'Machines that run agents of this node, newest first',
      description: 'Who is connected, and what each runs. Revoked workers are listed for 30 days.',
      response: WorkerRecords,
      handler: () => workers.list(),
    }),
    operation({
      ...shared,
      id: 'inviteWorker',
      method: 'POST',
      path: '/workers',
      summary: 'Make a join token for another machine',
      description:
        'The machine runs `stoa worker` with the token. The first machine that uses the token owns it. The token is ' +
        'shown only once.',
      body: InviteWorker,
      example: { name: 'gpu-1' },
      response: InvitedWorker,
      status: 201,
      location: ({ id }) => `/workers/${id}`,
      errors: ['WORKERS_TOO_MANY', 'STORE_WRITE_FAILED'],
      handler: ({ body }) => workers.invite(body),
    }),
    operation({
      ...shared,
      id: 'revokeWorker',
      method: 'DELETE',
      path: '/workers/{id}',
      summary: 'Revoke a worker or an invitation',
      description:
        'Cuts a connected worker off: at once, or within about a second if it is connected to another process. Tasks that it runs go to another worker, or fail uncharged.',
      params: WorkerParams,
      response: WorkerRecord,
      errors: ['UNKNOWN_WORKER', 'STORE_WRITE_FAILED'],
      handler: ({ params }) => workers.revoke(params.id),
    }),
  ]
}
