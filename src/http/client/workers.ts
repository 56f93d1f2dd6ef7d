import { InvitedWorker, type InviteWorker, WorkerRecord, WorkerRecords } from '../../schema/worker.ts'
import { at, type Options, type Requests } from './requests.ts'

/** The workers of a running node. The functions throw the errors of ApiClient. */
export type WorkerCalls = {
  workers(options?: Options): Promise<WorkerRecord[]>
  inviteWorker(wanted: InviteWorker, options?: Options): Promise<InvitedWorker>
  revokeWorker(id: string, options?: Options): Promise<WorkerRecord>
}

export function workerCalls({ request }: Requests): WorkerCalls {
  return {
    workers: (options) => request('/workers', WorkerRecords, options),
    inviteWorker: (wanted, options) => request('/workers', InvitedWorker, options, wanted),
    revokeWorker: (id, options) => request(at('workers', id), WorkerRecord, options, undefined, 'DELETE'),
  }
}
