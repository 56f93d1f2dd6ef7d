import { createHash } from 'node:crypto'
import type { CallToolResult } from '@modelcontextprotocol/server'
import { authorizationDigest, paymentIdOf } from '../payments/authorization.ts'
import type { ReceiptSigner } from '../payments/receipt-signer.ts'
import type { DoorAnswer } from '../protocols/doors/door-answers.ts'
import { type DoorSales, freeCaller } from '../protocols/doors/door-sales.ts'
import type { PaymentCheck } from '../protocols/doors/payment-check.ts'
import { readPayment, readPaymentHeader, type SentPayment } from '../protocols/doors/payment-header.ts'
import { failedText, waitText } from '../protocols/doors/refusal-texts.ts'
import { responseOf, settledResponse, unsettledResponse } from '../protocols/doors/settle-response.ts'
import { type AgentText, type DoorTerms, PAYMENT_REQUIRED, type Resource } from '../protocols/doors/terms.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { PaidRunDeps, ServedAgent } from '../protocols/x402/exchange.ts'
import { runFree } from '../protocols/x402/free-run.ts'
import { usdc } from '../schema/amount.ts'

/** The agents of this node as tools. */
export type AgentTool = { name: string; title: string; description: string; isPaid: boolean; agentId: string }

export type AgentToolCall = {
  task: string
  /** The metadata of the request, in which a payment may be. */
  meta: Readonly<Record<string, unknown>> | undefined
  /** True if the client has declared the extension for payments. */
  isExtended: boolean
  signal: AbortSignal
  check?: PaymentCheck | undefined
}

export type AgentToolsDeps = {
  sales: PaidRunDeps
  doorSales: DoorSales
  terms: DoorTerms
  signer: Pick<ReceiptSigner, 'signX402'>
  /** The address of the endpoint. */
  endpoint(): string
  /** The agents for sale now. */
  agents(): readonly SoldAgent[]
}
type SoldAgent = { id: string; price: bigint; text: AgentText }

/** Metadata keys: of x402's transport for MCP, and of an older client of v1 that sends its payment as text. */
const PAYMENT = 'x402/payment'
const RESPONSE = 'x402/payment-response'
const OLD_PAYMENT = 'x402.payment'
const OLD_RESPONSE = 'x402.payment-response'
const ERROR = 'stoa/error'
const NOT_SOLD = 'this agent is not sold any more'
/** A tool's name has 64 characters at most. */
const NAME_LENGTH_MAX = 40
const ID_LENGTH = 8

/** `offer` undefined: the agent is not for sale now. What was bought before is given all the same. */
type Asked = { offer: { agent: ServedAgent; text: AgentText } | undefined; resource: Resource; tool: AgentTool }

/** Sells agents as MCP tools, with the payments of x402. */
export function createAgentTools({ sales, doorSales, terms, signer, endpoint, agents }: AgentToolsDeps) {
  function toolOf({ id, price, text }: SoldAgent): AgentTool {
    const slug = text.name
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '_')
      .slice(0, NAME_LENGTH_MAX)
    const cost =
      price === 0n ? 'Free.' : `Costs ${usdc(price)} on ${sales.asset.network} for each call, paid with x402.`
    const name = `${slug.replaceAll(/^_|_$/g, '') || 'agent'}_${id.slice(0, ID_LENGTH)}`
    return { name, title: text.name, description: `${text.description}\n\n${cost}`, isPaid: price > 0n, agentId: id }
  }

  async function call(tool: AgentTool, asking: AgentToolCall): Promise<CallToolResult> {
    const text = agents().find(({ id }) => id === tool.agentId)?.text
    const resource: Resource = {
      ...{ url: endpoint(), mimeType: 'text/plain', isUpfront: sales.settleFirst, isListed: true, tool: tool.name },
    }
    try {
      const agent = text && agentOf(tool.agentId, sentIn(asking.meta))
      const asked = { offer: agent && { agent, text }, resource, tool }
      return await (agent?.amount === 0n ? runForNothing(agent, asking) : sell(asked, asking))
    } catch (error) {
      if (!(error instanceof PeerError)) throw error
      return failure(error.code === 'OVERLOADED' ? 'BUSY' : 'AGENT_FAILED', `${error.message}; nothing was charged`)
    }
  }

  /** Undefined: it is not sold now. What was paid for before is asked for all the same. @throws PeerError OVERLOADED */
  function agentOf(agentId: string, sent: SentPayment | undefined): ServedAgent | undefined {
    try {
      return sales.agents.find(agentId)
    } catch (error) {
      if (error instanceof PeerError && sent?.kind === 'exact') return undefined
      throw error
    }
  }

  /**
   * The tool of this name, if it is not for sale now and a payment of the call has bought a run of it before: its buyer may not
   * have got the result.
   */
  async function boughtBefore(name: string, meta: AgentToolCall['meta']): Promise<AgentTool | undefined> {
    const sent = sentIn(meta)
    const { payload, network } = sent?.kind === 'exact' ? sent.payment : {}
    if (payload === undefined || network !== sales.asset.network) return undefined
    const stored = await sales.payments.get(paymentIdOf(authorizationDigest(sales.asset, payload.authorization)))
    if (stored?.door !== 'mcp' || !name.endsWith(`_${stored.agentId.slice(0, ID_LENGTH)}`)) return undefined
    return { name, title: name, description: NOT_SOLD, isPaid: true, agentId: stored.agentId }
  }

  async function runForNothing(agent: ServedAgent, { task, signal }: AgentToolCall): Promise<CallToolResult> {
    return said(await runFree(agent, task, freeCaller('mcp', signal), sales))
  }

  async function sell(asked: Asked, asking: AgentToolCall): Promise<CallToolResult> {
    const sent = sentIn(asking.meta)
    if (sent === undefined) return askFor(asked, PAYMENT_REQUIRED, asking)
    if (sent.kind === 'channel') return askFor(asked, 'the scheme must be exact here', asking)
    if (sent.kind === 'other') return askFor(asked, sent.reason, asking)
    if (sent.kind === 'unreadable') {
      return failure('PAYMENT_UNREADABLE', `${sent.reason}. Nothing was charged`, { settlement: 'none' })
    }
    const { payment, version } = sent
    const { url } = asked.resource
    const boundTo = createHash('sha256').update(`MCP\n${asked.tool.agentId}\n`).update(asking.task).digest()
    const request = { door: 'mcp', agentId: asked.tool.agentId, input: asking.task, payment, boundTo } as const
    const mismatch = terms.mismatch(sent, asked.resource, asked.offer)
    const answer = await doorSales.sell({ ...request, mismatch, check: asking.check })
    if (answer.kind === 'refused') return askFor(asked, answer.reason, asking)
    if (answer.kind === 'unsettled') {
      const response = responseOf(version, unsettledResponse(answer, sales.asset.network))
      return { ...askFor(asked, answer.reason, asking), _meta: { [RESPONSE]: response } }
    }
    if (answer.kind !== 'result') return failure(...errorOf(answer))
    const bought = { agentId: asked.tool.agentId, network: sales.asset.network, resourceUrl: url }
    const response = responseOf(version, settledResponse(answer, bought, signer))
    return {
      ...said(answer.output),
      _meta: { [RESPONSE]: response, ...(version === 1 && { [OLD_RESPONSE]: response }) },
    }
  }

  /** By the extension only if the client has declared it: others take an unknown kind of result for an error. */
  function askFor({ offer, resource }: Asked, error: string, { isExtended }: AgentToolCall): CallToolResult {
    if (offer === undefined) return failure('NOT_FOUND', NOT_SOLD)
    const required = terms.of(offer.agent, offer.text, resource).v2(error)
    if (isExtended) return { resultType: 'payment_required', paymentRequired: required, content: [] }
    return {
      ...{ isError: true, structuredContent: required as Record<string, unknown> },
      content: [{ type: 'text', text: JSON.stringify(required) }],
    }
  }

  return { list: () => agents().map(toolOf), boughtBefore, call }
}

export type AgentTools = ReturnType<typeof createAgentTools>

function sentIn(meta: AgentToolCall['meta']): SentPayment | undefined {
  const payment = meta?.[PAYMENT] ?? meta?.[OLD_PAYMENT]
  if (payment === undefined) return undefined
  return typeof payment === 'string' ? readPaymentHeader(payment) : readPayment(payment)
}

function said(text: string): CallToolResult {
  return { content: [{ type: 'text', text }] }
}

function failure(code: string, detail: string, more: { settlement?: string } = {}): CallToolResult {
  const text = `${code}: ${detail}`
  return { isError: true, content: [{ type: 'text', text }], _meta: { [ERROR]: { code, detail, ...more } } }
}

function errorOf(
  answer: Exclude<DoorAnswer, { kind: 'result' | 'refused' | 'unsettled' }>,
): [string, string, { settlement?: string }] {
  const { kind, reason } = answer
  if (kind === 'used') return ['PAYMENT_USED', reason, {}]
  if (kind === 'pending') return ['SETTLEMENT_UNKNOWN', reason, { settlement: 'unknown' }]
  if (kind === 'failed') {
    const { settlement } = answer
    return ['AGENT_FAILED', failedText(reason, settlement), { settlement }]
  }
  if (kind === 'gone') return ['RESULT_GONE', reason, { settlement: answer.settlement }]
  if (kind === 'unknown') return ['NOT_FOUND', reason, { settlement: 'none' }]
  const { settlement } = answer
  return [kind === 'busy' ? 'BUSY' : 'TOO_MANY_REQUESTS', waitText(reason, settlement), { settlement }]
}
