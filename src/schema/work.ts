import * as z from 'zod'
import { AgentName } from './agent.ts'
import { RESULT_BYTES_MAX, RUN_SECONDS_MAX } from './limits.ts'

/** Between a seller and the machines that run its agents. Not for the market. */
export const WORK_PROTOCOL = '/stoa/work/1.0.0'

/** Tasks that one worker may run at the same time. */
export const WORKER_RUNS_MAX = 64
/** Agents that one worker may offer. A node hosts no more. */
const WORKER_AGENTS_MAX = 64
/** Characters of one piece of output. */
export const WORK_OUTPUT_LENGTH_MAX = 64 * 1024

/** Addresses of a seller that a worker is told. */
export const SELLER_ADDRESSES_MAX = 64

const version = z.literal('1.0')
const addrs = z
  .array(z.string().max(512))
  .max(SELLER_ADDRESSES_MAX)
  .meta({ description: 'where the seller is reached now: all its processes' })
const run = z.uuid().meta({ description: 'the run, as the seller named it' })

/**
 * Why a worker is not let in, or is let go. After a `final` reason it does not come back, and after INVALID_MESSAGE only a few
 * times.
 */
export const workRefusals = {
  TOKEN_UNKNOWN: { final: true },
  TOKEN_USED: { final: true },
  TOKEN_EXPIRED: { final: true },
  REVOKED: { final: true },
  INVALID_MESSAGE: { final: false },
  REPLACED: { final: false },
  WORKERS_TOO_MANY: { final: false },
  OVERLOADED: { final: false },
} as const
export type WorkRefusal = keyof typeof workRefusals

const WorkJoin = z.object({
  version,
  id: z.string().min(1).max(64).meta({ description: 'id of the worker, from the join token' }),
  secret: z.string().min(1).max(128).meta({ description: 'from the join token' }),
  agents: z
    .array(z.object({ name: AgentName, reads_history: z.boolean() }))
    .max(WORKER_AGENTS_MAX)
    .meta({ description: 'agents that the worker can run, by name, and whether they read earlier exchanges' }),
  runs_max: z.int().min(1).max(WORKER_RUNS_MAX).meta({ description: 'tasks that the worker runs at the same time' }),
  follows_addresses: z.boolean().optional().meta({ description: 'whether the worker understands `work.addresses`' }),
})
const WorkWelcome = z.object({
  version,
  name: z.string().max(80).meta({ description: 'name of the worker' }),
  unknown_agents: z.array(z.string().max(80)).max(WORKER_AGENTS_MAX).optional().meta({
    description: 'agents of `work.join` under whose names the seller has none for workers now: they get no task',
  }),
  addrs: addrs.optional(),
})
const WorkAddresses = z.object({ addrs })
const WorkRefused = z.object({
  version,
  code: z
    .string()
    .max(64)
    .meta({ description: Object.keys(workRefusals).join(', ') }),
  message: z.string().max(1024),
})
const WorkHistory = z.object({
  run,
  exchanges: z
    .array(z.object({ input: z.string(), output: z.string() }))
    .max(32)
    .meta({ description: 'earlier exchanges of the caller of the next task, oldest first' }),
})
const WorkTask = z.object({
  run,
  agent: AgentName,
  caller: z.string().max(256).meta({ description: 'the caller, as the seller knows it' }),
  body: z.base64().meta({ description: 'the task: base64 of UTF-8 text' }),
  stream: z.boolean().meta({ description: 'whether output is wanted before the result' }),
  timeout_seconds: z.int().min(1).max(RUN_SECONDS_MAX),
  output_bytes_max: z.int().min(1).max(RESULT_BYTES_MAX),
})
const WorkCancel = z.object({ run })
const WorkOutput = z.object({ run, text: z.string().min(1).max(WORK_OUTPUT_LENGTH_MAX) })
const WorkResult = z.object({ run, body: z.base64().meta({ description: 'the result: base64 of UTF-8 text' }) })
const WorkFailed = z.object({
  run,
  code: z.enum(['AGENT_FAILED', 'AGENT_TIMEOUT', 'AGENT_OUTPUT_TOO_LARGE', 'AGENT_NOT_RUNNABLE', 'AGENT_CANCELLED']),
  message: z.string().max(1024).meta({ description: 'for the buyer' }),
})

/** What a worker sends. */
export const fromWorker = {
  'work.join': WorkJoin,
  'work.output': WorkOutput,
  'work.result': WorkResult,
  'work.failed': WorkFailed,
} as const
/** What a seller sends. */
export const fromSeller = {
  'work.welcome': WorkWelcome,
  'work.addresses': WorkAddresses,
  'work.refused': WorkRefused,
  'work.history': WorkHistory,
  'work.task': WorkTask,
  'work.cancel': WorkCancel,
} as const
export const workMessages = { ...fromWorker, ...fromSeller } as const
export type WorkMessageType = keyof typeof workMessages
export type WorkMessage<T extends WorkMessageType> = z.infer<(typeof workMessages)[T]>
