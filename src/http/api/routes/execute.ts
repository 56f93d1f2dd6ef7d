import * as z from 'zod'
import type { Buyer } from '../../../buying/buyer.ts'
import type { UrlPurchase } from '../../../buying/web/buy-url.ts'
import type { Logger } from '../../../lib/logger.ts'
import { AgentParams, ExecutionResult } from '../../../schema/api.ts'
import type { ChannelWish } from '../../../schema/channel.ts'
import { Execute, ExecuteAgent } from '../../../schema/execute.ts'
import { TASK_BYTES_MAX } from '../../../schema/limits.ts'
import { HttpError, type ProblemCode } from '../../server/problem.ts'
import { type Call, type Operation, operation } from '../operation.ts'
import { progressStream, wantsStream } from '../progress-stream.ts'

type Task = { input: string; maxPriceAtomic?: bigint; awaitsSettlement?: boolean; channel?: ChannelWish }

const errors: readonly ProblemCode[] = [
  'OVER_PRICE',
  'OVER_BUDGET',
  'LISTING_MISMATCH',
  'TERMS_REFUSED',
  'URL_REFUSED',
  'SETTLES_FIRST',
  'CHANNEL_NEEDED',
  'NETWORK_MISMATCH',
  'INSUFFICIENT_FUNDS',
  'WALLET_HAS_CODE',
  'SELLER_NOT_ALLOWED',
  'APPROVAL_REQUIRED',
  'APPROVALS_TOO_MANY',
  'TOKEN_ENDED',
  'UNKNOWN_AGENT',
  'INPUT_TOO_LARGE',
  'OVERLOADED',
  'SELLER_FAILED',
  'SELLER_UNREACHABLE',
  'RESULT_PENDING',
  'AGENT_FAILED',
  'AGENT_OUTPUT_TOO_LARGE',
  'AGENT_NOT_RUNNABLE',
  'CHAIN_UNAVAILABLE',
  'WALLET_UNAVAILABLE',
  'STORE_WRITE_FAILED',
  'DEADLINE',
  'AGENT_TIMEOUT',
]
const shared = {
  method: 'POST',
  summary: 'Execute an agent',
  description:
    'Runs an agent of this node, or buys the execution from its seller: pays the listed price if the budget allows it, and ' +
    'answers the result. A closed connection cancels the call until the payment is signed. After that the order goes on, and ' +
    '`GET /orders?idempotency_key=…` finds it. The node does the same request with the same `Idempotency-Key` once, so a ' +
    'client may send it again after a lost connection. Errors of the exchange have the x402 number in `error_code`. With ' +
    '`Accept: text/event-stream` the answer shows the work while it runs.',
  tags: ['execute'],
  access: 'private',
  scope: 'execute',
  idempotent: true,
  response: ExecutionResult,
  streams: {
    description: 'The work while it runs',
    response: z.string().meta({
      description:
        'Server-sent events: `status` (ordered, paying, running) and `output` (a piece of the output) while the agent works, ' +
        'then `result` (an ExecutionResult) or `error` (a Problem). Only the result counts.',
    }),
  },
  errors,
} as const

export function executeRoutes(buyer: Pick<Buyer, 'execute' | 'buyUrl'>, logger: Logger): Operation[] {
  type Context = Pick<Call<0, 0, 0>, 'caller' | 'idempotencyKey' | 'signal' | 'headers'>
  function execute(agentId: string, task: Task, call: Context) {
    const { input } = task
    const bytes = Buffer.byteLength(input)
    if (bytes > TASK_BYTES_MAX) {
      throw new HttpError('INPUT_TOO_LARGE', `the task has ${bytes} bytes; the limit is ${TASK_BYTES_MAX}`)
    }
    const { caller, idempotencyKey, signal, headers } = call
    const request = { ...task, agentId, caller, idempotencyKey, signal }
    if (!wantsStream(headers.accept)) return buyer.execute(request)
    return progressStream((onProgress) => buyer.execute({ ...request, onProgress }), { caller, logger })
  }
  function buyFromUrl(wanted: Omit<UrlPurchase, 'signal'>, call: Context) {
    const { caller, idempotencyKey, signal, headers } = call
    const request = { ...wanted, caller, idempotencyKey, signal }
    if (!wantsStream(headers.accept)) return buyer.buyUrl(request)
    return progressStream((onProgress) => buyer.buyUrl({ ...request, onProgress }), { caller, logger })
  }
  return [
    operation({
      ...shared,
      id: 'executeAgent',
      path: '/agents/{id}/execute',
      params: AgentParams,
      body: ExecuteAgent,
      example: { task: 'Summarize: …', max_price: '0.05' },
      handler(call) {
        const { params, body } = call
        if (body.agent_id !== undefined && body.agent_id !== params.id) {
          throw new HttpError('INVALID_REQUEST', 'body: agent_id differs from the id in the path', {
            issues: [{ path: 'agent_id', message: 'differs from the id in the path' }],
          })
        }
        const { agent_id: _, ...task } = body
        return execute(params.id, task, call)
      },
    }),
    operation({
      ...shared,
      id: 'execute',
      path: '/execute',
      summary: 'Execute an agent, or buy from a URL',
      description: `${shared.description} With \`url\` instead of \`agent_id\` it buys from an x402 seller over HTTP: scheme \`exact\`, versions 2 and 1. The terms come from the live answer of the seller.`,
      body: Execute,
      example: { agent_id: 'q5v7gtn3jhb2kxw4', input: 'Summarize: …', max_price: '0.05' },
      handler(call) {
        if ('url' in call.body) return buyFromUrl(call.body, call)
        const { agent_id: id, ...task } = call.body
        return execute(id, task, call)
      },
    }),
  ]
}
