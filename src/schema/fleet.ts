import * as z from 'zod'
import { WorkerRecord } from './worker.ts'

const ms = z.number().meta({ description: 'milliseconds' })

const Latency = z
  .object({ p50_ms: ms, p99_ms: ms, count: z.int().min(0).meta({ description: 'how many were measured lately' }) })
  .meta({ id: 'Latency', description: 'How long this process waited for the database, of what it asked for lately.' })

const processStates = ['starting', 'selling', 'ready', 'draining', 'silent'] as const
const FleetProcess = z
  .object({
    id: z.string().meta({ description: 'changes at each start' }),
    place: z.string().meta({ description: 'name of the machine, and number of the process there' }),
    answering: z.boolean().meta({ description: 'true for the process that gives this answer' }),
    state: z.enum(processStates).meta({
      description:
        '`ready`: it runs and sells nothing; `draining`: it stops and takes no new calls; `silent`: it has not been heard of for a while, and ends with its lease',
    }),
    version: z.string().optional(),
    schema: z.int().optional().meta({ description: 'version of the tables of the ledger that it was made for' }),
    started_at: z.string(),
    seen_at: z.string().optional().meta({ description: 'when it last said how it is' }),
    lease_seconds: z.number().optional().meta({
      description: 'when its lease ends unless it renews it. Other processes then take over its work',
    }),
    addresses: z.array(z.string()).meta({ description: 'where buyers reach it' }),
    agents: z.array(z.string()).meta({ description: 'ids of the agents that it sells' }),
    running: z.int().min(0).meta({ description: 'calls that it runs now' }),
    clock_ahead_ms: z.int().optional().meta({ description: 'how far its clock is ahead of the clock of the database' }),
    lag_ms: z.int().optional().meta({
      description: 'for how long it has been overdue to read what the other processes changed; 0 if it keeps up',
    }),
    differs: z
      .object({ agents: z.array(z.string()), budget: z.boolean() })
      .optional()
      .meta({
        description:
          'present if it is configured in another way than the process that answers: the names of the agents that differ or that one of the two lacks, and whether the budget differs',
      }),
    read: Latency.optional(),
    change: Latency.optional(),
  })
  .meta({ id: 'FleetProcess', description: 'A process of this seller that is alive.' })
export type FleetProcess = z.infer<typeof FleetProcess>

const EndedProcess = z
  .object({
    id: z.string(),
    place: z.string(),
    ended_at: z.string(),
    how: z.enum(['stopped', 'lost']).meta({ description: '`lost`: its lease ended, because it died or was cut off' }),
  })
  .meta({ id: 'EndedProcess', description: 'A process of this seller that has ended.' })

export const Fleet = z
  .object({
    processes: z.array(FleetProcess).meta({ description: 'oldest first' }),
    ended: z.array(EndedProcess).meta({ description: 'those of the last hour, latest first' }),
    missing: z.int().min(0).meta({
      description:
        'how many were lost in the last hour and have not come back with their data directory or public address',
    }),
    roles: z
      .array(z.object({ name: z.string(), process: z.string() }))
      .meta({ description: 'what one process does for all, and which' }),
    database: z.object({
      engine: z.enum(['sqlite', 'postgres']),
      server: z.string().optional().meta({ description: 'host, port and name of the database' }),
      away: z.string().optional().meta({
        description: 'why it does not answer. Present while it is away: the rest is as it was before',
      }),
    }),
    workers: z.array(WorkerRecord).meta({ description: 'machines that have joined and were not revoked' }),
  })
  .meta({ id: 'Fleet', description: 'The processes and workers of one seller.' })
export type Fleet = z.infer<typeof Fleet>
