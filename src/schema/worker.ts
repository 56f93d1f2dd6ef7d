import * as z from 'zod'
import { nameUpTo } from './agent.ts'
import { NAME_LENGTH_MAX } from './limits.ts'

/** Hours for which a join token may wait for its worker, and by default does. */
export const INVITE_HOURS_MAX = 30 * 24
export const INVITE_HOURS = 24

export const WorkerName = nameUpTo(NAME_LENGTH_MAX).meta({ description: 'which machine the worker is' })

/** The body of POST /workers. */
export const InviteWorker = z
  .strictObject({
    name: WorkerName.optional(),
    expires_in_seconds: z
      .int()
      .min(60)
      .max(INVITE_HOURS_MAX * 3600)
      .optional()
      .meta({ description: `how long the token waits for its first use; default: ${INVITE_HOURS * 3600}` }),
  })
  .meta({ id: 'InviteWorker' })
export type InviteWorker = z.output<typeof InviteWorker>

export const WorkerParams = z.strictObject({
  id: z.string().min(1).max(64).meta({ description: 'id of the worker' }),
})

const workerStates = ['invited', 'expired', 'connected', 'away', 'revoked'] as const
export const WorkerRecord = z
  .object({
    id: z.string(),
    name: z.string(),
    state: z.enum(workerStates).meta({
      description:
        '`invited`: its token was not used yet; `expired`: nor can it be any more; `away`: it joined before and is not connected now',
    }),
    peer_id: z.string().optional().meta({ description: 'the key that the token belongs to since its first use' }),
    agents: z
      .array(z.string())
      .meta({ description: 'names of agents that it says it can run; empty unless it is connected' }),
    failing: z
      .array(z.string())
      .optional()
      .meta({ description: 'names of agents whose last tasks it failed: other workers go first for a while' }),
    running: z.int().meta({ description: 'tasks that it runs now' }),
    runs_max: z.int().meta({ description: 'tasks that it runs at the same time' }),
    created_at: z.string(),
    expires_at: z.string().meta({ description: 'when the token ends unless a worker has used it' }),
    processes: z
      .array(z.string())
      .optional()
      .meta({ description: 'ids of the processes of this seller that it is connected to: see `GET /fleet`' }),
    connected_at: z.string().optional(),
    seen_at: z.string().optional().meta({ description: 'when it was connected last' }),
    revoked_at: z.string().optional(),
  })
  .meta({ id: 'Worker', description: 'A machine that runs agents of this node.' })
export type WorkerRecord = z.infer<typeof WorkerRecord>
export const WorkerRecords = z.array(WorkerRecord)

export const InvitedWorker = WorkerRecord.extend({
  token: z.string().meta({ description: 'the join token: shown only in this answer; the node stores only a hash' }),
}).meta({ id: 'InvitedWorker' })
export type InvitedWorker = z.infer<typeof InvitedWorker>
