import type { Execution, Listing, OrderRecord, PaymentRecord, PeerErrors, ReceiptRecord } from './api/types.ts'
import { endOf } from './run-end.ts'

/** A value as the ledger stores it. Null means that the frame had the value and no ledger stores it. */
export type FrameField = readonly [name: string, value: string | null]
/** One message of an exchange, named as in docs/protocol.md. A message that no peer sent has no sender. */
export type Frame = {
  type: string
  from: 'buyer' | 'seller' | 'nobody'
  at?: string
  note?: string
  fields: FrameField[]
}

/** The known records of one exchange. `receipt` and `listing` may still be loading. */
export type KnownExchange = {
  order?: OrderRecord | undefined
  execution?: Execution | undefined
  payment?: PaymentRecord | undefined
  receipt?: ReceiptRecord | undefined
  listing?: Listing | undefined
}

/** The ledger's prefix for an A2A caller, who has no peer id. */
const A2A_CALLER = 'a2a:'
const errorCodes: { [Name in keyof PeerErrors]: PeerErrors[Name]['code'] } = {
  INVALID_MESSAGE: 1000,
  UNKNOWN_RESOURCE: 1001,
  PAYMENT_REQUIRED: 2000,
  PAYMENT_INVALID: 2001,
  PAYMENT_NONCE_MISMATCH: 2002,
  PAYMENT_NONCE_EXPIRED: 2003,
  PAYMENT_NONCE_USED: 2004,
  PAYMENT_AMOUNT_WRONG: 2005,
  SETTLEMENT_FAILED: 2007,
  EXECUTION_FAILED: 3000,
  OVERLOADED: 3001,
}

/** The frames of an exchange, in order. The list is empty if an own agent was called, or nothing was sent yet. */
export function framesOf(known: KnownExchange): Frame[] {
  const { order, execution, payment, listing } = known
  if ((payment?.peer_id ?? execution?.caller_id)?.startsWith(A2A_CALLER)) return messagesOf(known)
  if (payment !== undefined) return [...asking(known, payment), ...answerOf(known), settlement(payment)]
  if (execution !== undefined) return execution.caller_id === 'local' ? [] : freeFrames(known)
  if (order === undefined || order.status === 'pending' || listing?.local === true) return []
  const isFree = order.status === 'completed' || (listing !== undefined && listing.price === 0)
  if (isFree) return freeFrames(known)
  const note =
    'Nothing was signed. The ledger does not store whether this frame was sent and whether a challenge came back.'
  return [{ type: 'x402.request', from: 'buyer', note, fields: requestFields(known) }, ...answerOf(known)]
}

function asking(known: KnownExchange, payment: PaymentRecord): Frame[] {
  const { challenge_nonce: challenge, created_at: at, channel_id: channel } = payment
  if (channel !== undefined) {
    const note = 'The request came with a voucher of the payment channel, so there was no challenge.'
    const paid: FrameField[] = [
      ['server_nonce', 'preemptive'],
      ['channel', channel],
      ['voucher', null],
      ['counted', null],
    ]
    return [{ type: 'x402.request', from: 'buyer', at, note, fields: [...requestFields(known), ...paid] }]
  }
  const paid: FrameField[] = [['server_nonce', challenge ?? 'preemptive'], ...authorizationFields(payment)]
  if (challenge === null) {
    const note = 'Preemptive: the payment came with the first request, so there was no challenge.'
    return [{ type: 'x402.request', from: 'buyer', at, note, fields: [...requestFields(known), ...paid] }]
  }
  return [
    { type: 'x402.request', from: 'buyer', fields: [...requestFields(known), ['payment', 'null']] },
    {
      type: 'x402.payment_required',
      from: 'seller',
      fields: [
        ['challenge_nonce', challenge],
        ['challenge_expires_at', null],
        ...requiredFields(payment),
        ['message', null],
      ],
    },
    { type: 'x402.paid_request', from: 'buyer', at, fields: paid },
  ]
}

function requestFields({ order, execution, payment }: KnownExchange): FrameField[] {
  const correlation = order?.correlation_id ?? execution?.correlation_id ?? payment?.correlation_id
  const agent = order?.agent_id ?? execution?.agent_id ?? payment?.agent_id
  return [
    ['correlation_id', correlation ?? null],
    ['resource', agent ?? null],
    ['method', 'execute'],
    ...(execution === undefined ? [] : [['caller_did', execution.caller_id] as const]),
    ...(order === undefined && execution === undefined ? [] : [['body', 'the task'] as const]),
  ]
}

function requiredFields(payment: PaymentRecord): FrameField[] {
  return [
    ['amount', `${payment.amount_atomic} (${payment.amount} USDC)`],
    ['asset', payment.asset],
    ['payTo', payment.pay_to],
    ['network', payment.network],
    ['maxTimeoutSeconds', String(payment.max_timeout_seconds)],
  ]
}

function authorizationFields(payment: PaymentRecord): FrameField[] {
  const { valid_after = null, valid_before = null, nonce = null } = payment
  return [
    ['from', payment.payer],
    ['to', payment.pay_to],
    ['value', payment.amount_atomic],
    ['validAfter', valid_after],
    ['validBefore', valid_before],
    ['nonce', nonce],
    ['signature', 'stored, never shown'],
  ]
}

/** The answer, or that there was none, or that the outcome is unknown. */
function answerOf({ order, execution, payment, receipt }: KnownExchange): Frame[] {
  const isDelivered = order?.status === 'completed' || execution?.output !== undefined || receipt?.receipt !== undefined
  if (isDelivered) {
    const hasBody = order !== undefined || execution !== undefined
    const fields: FrameField[] = [
      ['payment_id', payment?.payment_id ?? null],
      ...(payment?.channel_id === undefined ? [['tx_hash', null] as const] : [['charge', chargeOf(payment)] as const]),
      ...(hasBody ? [['body', 'the result'] as const] : []),
      ['seller_token_id', null],
      ['receipt', receipt === undefined ? 'not known' : receipt.status],
    ]
    if (payment?.channel_id !== undefined) return [{ type: 'x402.response', from: 'seller', fields }]
    const note = 'tx_hash is empty if the payment was settled after this frame. The settlement is shown below.'
    return [{ type: 'x402.response', from: 'seller', note, fields }]
  }
  if (order?.error !== undefined) return [failure(order.error, 'x402.error')]
  const reason = execution?.error ?? (payment?.state === 'voided' ? payment.error : undefined)
  if (reason !== undefined) {
    const fields = [['error_code', null] as const, ['error_name', null] as const, ['message', reason] as const]
    return [{ type: 'x402.error', from: 'seller', fields }]
  }
  if (order?.status === 'cancelled') return [{ type: 'cancelled', from: 'nobody', fields: [] }]
  if (order?.status === 'executing' || payment?.state === 'reserved') {
    return [{ type: 'no answer yet', from: 'nobody', fields: [] }]
  }
  return [
    {
      type: 'x402.response or x402.error',
      from: 'seller',
      note: 'The ledger does not store which of the two frames was sent.',
      fields: [],
    },
  ]
}

/** A code from the error table comes from the seller. Any other code comes from this node. */
function failure({ code, message, retryable }: NonNullable<OrderRecord['error']>, type: string): Frame {
  if (!Object.hasOwn(errorCodes, code)) {
    const note = 'This node reported the error. No frame was received.'
    return { type: code, from: 'nobody', note, fields: [['message', message]] }
  }
  const fields: FrameField[] = [
    ['error_code', String(errorCodes[code as keyof PeerErrors])],
    ['error_name', code],
    ['message', message],
    ['retryable', String(retryable)],
  ]
  if (code !== 'INVALID_MESSAGE') return { type, from: 'seller', fields }
  const note =
    'The seller sent this error, or this node could not read the frame of the seller. The ledger does not store which of the two happened.'
  return { type, from: 'seller', note, fields }
}

const chargeOf = ({ amount_atomic, amount }: PaymentRecord) => `${amount_atomic} (${amount} USDC)`

function settlement({ state, tx_hash, attempts, channel_id: channel }: PaymentRecord): Frame {
  if (channel !== undefined) {
    const note = 'This step is not a frame. The seller claims the charges of the channel together.'
    return {
      type: 'claim',
      from: 'nobody',
      note,
      fields: [
        ['channel', channel],
        ['state', state],
      ],
    }
  }
  const note = 'This step is not a frame. The seller submits the authorization to a facilitator.'
  const fields: FrameField[] = [
    ['state', state],
    ['transaction', tx_hash === '' ? 'none yet' : tx_hash],
    ...(attempts === undefined ? [] : [['attempts', String(attempts)] as const]),
  ]
  return { type: 'settlement', from: 'nobody', note, fields }
}

function freeFrames({ order, execution }: KnownExchange): Frame[] {
  const { agent_id, correlation_id, error } = (order ?? execution)!
  const note =
    'The buyer sent this frame or an x402.request without payment. The ledger does not store which of the two protocols was used.'
  const fields: FrameField[] = [
    ['agent_id', agent_id],
    ['correlation_id', correlation_id ?? null],
    ['input', 'the task'],
  ]
  const asked: Frame = { type: 'execute', from: 'buyer', note, fields }
  if (typeof error === 'object') return [asked, failure(error, 'error')]
  if (error !== undefined) return [asked, { type: 'error', from: 'seller', fields: [['message', error]] }]
  if (order !== undefined && order.status !== 'completed') {
    const type = order.status === 'cancelled' ? 'cancelled' : 'no answer yet'
    return [asked, { type, from: 'nobody', fields: [] }]
  }
  return [asked, { type: 'answer', from: 'seller', fields: [['output', 'the result']] }]
}

/**
 * The messages of an A2A task carry the same data: the payment is in their metadata, and the task replaces the
 * challenge.
 */
function messagesOf(known: KnownExchange): Frame[] {
  const { execution, payment } = known
  const fields: FrameField[] = [['task', (payment ?? execution)?.correlation_id ?? null]]
  const note = 'A2A sends the messages of a task instead of frames.'
  const asked: Frame = { type: 'message', from: 'buyer', note, fields }
  const answer = answerOf(known).map(({ type, from, fields }) => ({
    type: A2A_ANSWERS[type] ?? type,
    from,
    fields: fields.filter(([name]) => name === 'message' || name === 'body' || name === 'receipt'),
  }))
  if (payment === undefined) {
    const type = execution === undefined ? 'failed' : endOf(execution)
    return [asked, { type, from: 'seller', fields: [['message', execution?.error ?? 'the result']] }]
  }
  return [
    asked,
    { type: 'payment-required', from: 'seller', fields: requiredFields(payment) },
    { type: 'payment-submitted', from: 'buyer', at: payment.created_at, fields: authorizationFields(payment) },
    ...answer,
    settlement(payment),
  ]
}

const A2A_ANSWERS: Readonly<Record<string, string>> = {
  'x402.response': 'payment-completed',
  'x402.error': 'payment-failed',
  'x402.response or x402.error': 'payment-completed or payment-failed',
}
