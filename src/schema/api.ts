import * as z from 'zod'
import { AgentDefinition, checkPrice, privateFields } from './agent.ts'
import { Price, PriceText } from './amount.ts'
import { ChannelWish } from './channel.ts'
import { ExecutionPayment } from './execution-payment.ts'
import { TASK_BYTES_MAX } from './limits.ts'
import { Listing } from './listing.ts'
import { NetworkKind } from './network-kind.ts'
import { Address, Network } from './primitives.ts'
import { WebPurchase } from './web-purchase.ts'

export const Health = z.object({ status: z.literal('ok') }).meta({ id: 'Health' })
export type Health = z.infer<typeof Health>

export const Listings = z.array(Listing)

/** The name that a caller gives for an agent. Text that is no agent id gets the same answer as an unknown id: 404. */
export const AgentRef = z.string().min(1).max(256).meta({ description: 'id of the agent, lower-case base32' })
export const AgentParams = z.strictObject({ id: AgentRef })

/** Of one run of an agent. */
export const Canceled = z
  .literal(true)
  .optional()
  .meta({ description: 'the caller canceled the run: it has an error, and does not count as failed' })

const { name, description, price, pricing, model, tags, image, timeout_seconds, streaming } = AgentDefinition.shape

/**
 * The body of POST /agents (D12): the fields of a definition that are allowed over HTTP. Fields that name a program or
 * a key of this machine stay in agents.yaml (T12), see `operatorFields`.
 */
export const RegisterAgent = z
  .strictObject({ name, description, price, pricing, model, ...privateFields, tags, image, timeout_seconds, streaming })
  .superRefine(checkPrice)
  .meta({ id: 'RegisterAgent', description: 'An agent to run, store and list.' })
export type RegisterAgent = z.infer<typeof RegisterAgent>

export const Task = z
  .string()
  .min(1, 'is empty: give a task')
  .refine((text) => text.isWellFormed(), 'is not well-formed Unicode (a lone surrogate)')

/** `task` and `input` are two names of one field (D17). */
export const taskFields = {
  task: Task.optional().meta({ description: `task for the agent; at most ${TASK_BYTES_MAX} bytes as UTF-8` }),
  input: Task.optional().meta({ description: 'the same as `task`' }),
  max_price: z.union([Price, PriceText]).optional().meta({
    description: 'the most to pay for this call, in USDC, as text or number; cannot exceed the limit of the node',
  }),
  await_settlement: z
    .boolean()
    .optional()
    .meta({
      description:
        '`true`: the result waits until the seller has settled the payment or cannot do so soon, and names the transaction. ' +
        'Default: `buyer.await_settlement` of the node, which is `false`',
    }),
  channel: ChannelWish.optional(),
}

type TaskNames = { task?: string | undefined; input?: string | undefined }
/** The task, under either of its two names. */
export function taskOf({ task, input }: TaskNames, context: z.core.$RefinementCtx): string {
  if (task === undefined && input === undefined) {
    context.addIssue({ code: 'custom', path: ['task'], message: 'is missing' })
  } else if (task !== undefined && input !== undefined && task !== input) {
    context.addIssue({ code: 'custom', path: ['input'], message: 'differs from task: give only one of them' })
  }
  return task ?? input ?? ''
}

/** The agent, under either of its two names. */
export function agentOf(snake: string | undefined, camel: string | undefined, context: z.core.$RefinementCtx): string {
  if (snake === undefined && camel === undefined) {
    context.addIssue({ code: 'custom', path: ['agent_id'], message: 'is missing' })
  } else if (snake !== undefined && camel !== undefined && snake !== camel) {
    context.addIssue({ code: 'custom', path: ['agentId'], message: 'differs from agent_id: give only one of them' })
  }
  return snake ?? camel ?? ''
}

// The schemas below are answers of the node. Where money is already spent they describe formats without enforcing them:
// a result must never be lost to its own schema.

/** Present only if the result is not UTF-8 or its response was unusual. */
export const oddResultFields = {
  output_base64: z.string().optional().meta({
    description: 'the result as base64, if it is not UTF-8; `output` then has only the part that is text',
  }),
  notes: z.array(z.string()).optional().meta({ description: 'problems in the response of the seller' }),
}

/** The result of an execution (D17). */
export const ExecutionResult = z
  .object({
    correlation_id: z.string(),
    agent_id: z.string(),
    seller_id: z.string(),
    output: z.string().meta({ description: "the agent's answer: data from another party, never to be trusted" }),
    ...oddResultFields,
    session_id: z.string(),
    duration_ms: z.number(),
    order_id: z.string().optional().meta({
      description: 'absent only if nothing was paid and the order could not be stored, for example on a full disk',
    }),
    web: WebPurchase.optional().meta({ description: 'present if it was bought from an x402 seller over HTTP' }),
    payment: ExecutionPayment.nullable().meta({ description: 'null for a free agent or an own agent' }),
  })
  .meta({ id: 'ExecutionResult', description: 'The result of an execution.' })
export type ExecutionResult = z.infer<typeof ExecutionResult>

const count = z.int().min(0)

/** Whether others can reach the node, and what to do if they cannot. */
export const Reachability = z
  .object({
    state: z.enum(['public', 'relayed', 'unreachable', 'unknown']),
    addresses: z.array(z.string()).meta({ description: 'addresses that anybody can dial directly or over a relay' }),
    relays: z.array(z.string()).meta({ description: 'peer ids of the relays of this node' }),
    reason: z.string().optional(),
    fix: z.string().optional(),
    forwarding: z
      .object({ state: z.enum(['asking', 'mapped', 'failed']), says: z.string() })
      .optional()
      .meta({ description: 'whether the router forwards the port (--upnp)' }),
  })
  .meta({ id: 'Reachability' })
export type Reachability = z.infer<typeof Reachability>

/** Whether the node has found the market, how it searches, and what to do (D43). */
export const MarketSearch = z
  .object({
    met: count.meta({ description: 'connected peers that take part in the market' }),
    tried: z.array(z.string()),
    fix: z.string().optional(),
  })
  .meta({ id: 'MarketSearch' })

/** The node at a glance (D21). */
export const NodeStatus = z
  .object({
    name: z.string().optional().meta({ description: 'name of this node (NODE_NAME)' }),
    peer_id: z.string(),
    addresses: z.array(z.string()).meta({ description: 'multiaddrs that this node announces' }),
    market: z
      .object({ peer_id: z.string(), addresses: z.array(z.string()) })
      .optional()
      .meta({
        description:
          'how other nodes meet this process, if it is one of several of its seller: its own peer id there, and its addresses. Give others those in `addresses`: they stay the same after a restart',
      }),
    connected_peers: count,
    version: z.string(),
    uptime_seconds: z.number().min(0),
    network: Network,
    network_kind: NetworkKind,
    wallet_address: Address,
    wallet_before: z.string().optional().meta({
      description: 'the wallet that the node used before this one, until it starts with that one again',
    }),
    ledger_restored_at: z.string().optional().meta({
      description: 'when the node found that its ledger is an older copy, such as a backup that was put back',
    }),
    agents: z.object({ local: count, known: count }),
    reachability: Reachability,
    search: MarketSearch.optional(),
    settlement: z.object({ pending: count, failed: count }).meta({
      description: 'payments owed to this node: not settled yet (`pending`), or never to be settled (`failed`)',
    }),
    trading: z
      .object({
        state: z.enum(['open', 'stopped']),
        code: z.enum(['STORE_DAMAGED', 'STORE_IN_USE', 'LEDGER_COPIED', 'LEDGER_LOST', 'CLOCK_OFF']).optional(),
        reason: z.string().optional(),
        fix: z.string().optional(),
      })
      .optional()
      .meta({
        description:
          '`stopped`: the node does not buy or sell, because its ledger is damaged, was copied, was deleted, or is used by another process, or because its clock is not that of the ledger',
      }),
    open_files: z
      .object({
        max: count.optional().meta({ description: 'the limit (`ulimit -n`); absent if the system does not report it' }),
        wanted: count.meta({ description: 'number that a busy node needs' }),
      })
      .optional()
      .meta({ description: 'limit of open files and connections' }),
    processes: z
      .object({
        alive: count.meta({ description: 'processes of this seller that are alive, this one included' }),
        missing: count.meta({ description: 'processes that were lost in the last hour and have not come back' }),
      })
      .optional()
      .meta({ description: 'the processes that share the ledger, if it is shared: see `GET /fleet`' }),
    workers: z
      .object({ connected: count, running: count, runs_max: count })
      .optional()
      .meta({ description: 'the workers that are connected, if any are: see `GET /fleet`' }),
    alarms: count.optional().meta({ description: 'number of alarms that are not dismissed: see `GET /alarms`' }),
    database: z
      .object({ state: z.enum(['away']), reason: z.string() })
      .optional()
      .meta({
        description:
          'present while the database of the ledger does not answer: `settlement`, `alarms`, `processes` and `workers` are as they were before',
      }),
    chain_wrong: z.string().optional().meta({
      description:
        'present while the RPC endpoint serves another chain than `network`: nothing that it says is believed',
    }),
    refused_change: z.string().optional().meta({
      description: 'present for a minute after the database of the ledger could not write a change: why',
    }),
  })
  .meta({ id: 'NodeStatus' })
export type NodeStatus = z.infer<typeof NodeStatus>

/** A connected peer (D21). */
export const PeerStatus = z
  .object({
    peer_id: z.string(),
    addresses: z.array(z.string()),
    direction: z.enum(['inbound', 'outbound']),
    latency_ms: z.number().optional(),
    agent_version: z.string().optional(),
  })
  .meta({ id: 'PeerStatus' })
export type PeerStatus = z.infer<typeof PeerStatus>
export const PeerStatuses = z.array(PeerStatus)

/** The node's USDC (D21). */
export const WalletBalance = z
  .object({
    address: Address,
    network: Network,
    network_kind: NetworkKind,
    asset: Address,
    symbol: z.string(),
    decimals: count,
    balance: z.string().meta({ description: 'decimal text' }),
    balance_atomic: z.string(),
    eth: z
      .string()
      .optional()
      .meta({ description: 'ETH for gas; only own transactions need gas; absent if the RPC does not report it' }),
  })
  .meta({ id: 'WalletBalance' })
export type WalletBalance = z.infer<typeof WalletBalance>

/** Every error of the API (D15, RFC 9457). */
export const Problem = z
  .object({
    type: z.string().meta({ description: 'URI reference to this code in the documentation' }),
    title: z.string(),
    status: z.int().min(400).max(599),
    detail: z.string().meta({ description: 'what happened and what to do' }),
    code: z.string().meta({ description: 'stable name of the error' }),
    errors: z
      .array(z.object({ path: z.string(), message: z.string() }))
      .optional()
      .meta({ description: 'the fields that are not valid' }),
    error_code: z.int().optional().meta({ description: 'number of the x402 error' }),
    correlation_id: z.string().optional(),
    approval_id: z.string().optional().meta({ description: 'the approval that the call waits for' }),
    order_id: z.string().optional().meta({ description: 'the order of the call, which holds its payment and its end' }),
    retryable: z.boolean().optional().meta({
      description:
        'whether the same request may succeed later. With an `order_id`, send it with a new `Idempotency-Key`: the old key gets this failure again',
    }),
  })
  .meta({ id: 'Problem', description: 'An error, as application/problem+json.' })
export type Problem = z.infer<typeof Problem>
