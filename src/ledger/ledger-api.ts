import { isoTime } from '../lib/clock.ts'
import { defined } from '../lib/defined.ts'
import { CodedError } from '../lib/errors.ts'
import { maySee } from '../listings/market-error.ts'
import { type Caller, isCallerSeen, OPERATOR, ownerSeen } from '../schema/caller.ts'
import type { ExecutionRecord, PaymentQuery } from '../schema/ledger.ts'
import { RUN_CANCELED } from '../schema/limits.ts'
import type { Page } from '../schema/page.ts'
import type { PaymentRecord } from '../schema/payment-record.ts'
import type { Hex } from '../schema/primitives.ts'
import type {
  ExecutionsQuery,
  LedgerEntry,
  LedgerQuery,
  LedgerReader,
  StoredExecution,
} from '../store/ledger-reader.ts'
import type { LedgerState } from '../store/payment-facts.ts'
import { madePayment, receivedPayment } from './payment-record.ts'

type LedgerApiDeps = {
  ownerOf(orderId: string): Promise<string | undefined>
  ledger: LedgerReader
  nameOf(agentId: string): string | undefined
  /** Returns the ids of own agents whose name contains this text. */
  named(text: string): string[]
  /** Tries again to settle a received payment. @throws CodedError PAYMENT_FINAL */
  retrySettlement(id: Hex): Promise<void>
  /** Pays back a received payment. @throws CodedError, TransactionError, ChainError */
  refund(id: Hex, signal: AbortSignal): Promise<void>
  /** Checks again what became of an order's payment. */
  look(orderId: string): Promise<void>
  isReceived(orderId: string): Promise<boolean>
}

/** Received and made payments, and executions, as the API shows them. */
export interface LedgerApi {
  payments(query: PaymentQuery, caller?: Caller): Promise<Page<PaymentRecord>>
  payment(id: string, caller?: Caller): Promise<PaymentRecord>
  /** @throws CodedError UNKNOWN_PAYMENT, PAYMENT_FINAL */
  retry(id: string): Promise<PaymentRecord>
  /** @throws CodedError UNKNOWN_PAYMENT, PAYMENT_FINAL, TransactionError, ChainError */
  refund(id: string, signal: AbortSignal): Promise<PaymentRecord>
  executions(query: Omit<ExecutionsQuery, 'ownerId' | 'agentIds'>, caller?: Caller): Promise<Page<ExecutionRecord>>
  execution(id: string, caller?: Caller): Promise<ExecutionRecord>
}

/** Payment states of the API, and the stored states they stand for in each direction. */
const storedStates: Readonly<Record<PaymentRecord['state'], { in: LedgerState[]; out: LedgerState[] }>> = {
  settled: { in: ['settled'], out: ['spent'] },
  claimed: { in: [], out: ['spent'] },
  pending: { in: ['owed'], out: ['spent'] },
  reserved: { in: ['authorized'], out: ['reserved'] },
  released: { in: [], out: ['released'] },
  voided: { in: ['voided'], out: [] },
  failed: { in: ['unsettled'], out: [] },
}

/** For outgoing payments: the kind of transaction each state requires. */
const transactions: { [S in PaymentRecord['state']]?: LedgerQuery['transaction'] } = {
  settled: 'confirmed',
  claimed: 'claimed',
  pending: 'none',
}

export function createLedgerApi({
  ledger,
  nameOf,
  named,
  retrySettlement,
  refund,
  look,
  isReceived,
  ownerOf,
}: LedgerApiDeps): LedgerApi {
  const record = (entry: LedgerEntry) =>
    entry.direction === 'in' ? receivedPayment(entry.payment, nameOf) : madePayment(entry.made, nameOf)

  /** Token callers see only payments for their own orders. Received payments belong to the operator (D48). */
  async function isSeen(entry: LedgerEntry, caller: Caller): Promise<boolean> {
    if (ownerSeen(caller) === undefined) return true
    return entry.direction === 'out' && maySee(caller, await ownerOf(entry.made.orderId))
  }

  async function payment(id: string, caller: Caller = OPERATOR): Promise<LedgerEntry> {
    const row = await ledger.payment(id as Hex)
    if (row !== undefined && (await isSeen(row, caller))) return row
    throw new CodedError('UNKNOWN_PAYMENT', 'no payment has this id: GET /payments lists them')
  }

  /** True if a payment was signed, not released, and has no result yet (D44). */
  async function mayBeAskedFor({ state, orderId }: { state: LedgerState; orderId: string }): Promise<boolean> {
    return state === 'reserved' || (state === 'spent' && !(await isReceived(orderId)))
  }

  return {
    async payments({ state, ...query }, caller = OPERATOR) {
      const states = state && storedStates[state]
      const transaction = state === undefined ? undefined : transactions[state]
      const { items, next } = await ledger.payments({ ...query, states, transaction, ownerId: ownerSeen(caller) })
      return { items: items.map(record), next }
    },
    payment: async (id, caller) => record(await payment(id, caller)),
    async retry(id) {
      const entry = await payment(id)
      if (entry.direction === 'in') await retrySettlement(id as Hex)
      else if (await mayBeAskedFor(entry.made)) await look(entry.made.orderId)
      else throw new CodedError('PAYMENT_FINAL', 'this payment is final: see its state')
      return record(await payment(id))
    },
    async refund(id, signal) {
      await refund(id as Hex, signal)
      return record(await payment(id))
    },
    async executions(query, caller = OPERATOR) {
      const agentIds = query.text === undefined ? undefined : named(query.text)
      const { items, next } = await ledger.executions({ ...query, agentIds, ownerId: ownerSeen(caller) })
      return { items: items.map((row) => executionRecord(row, nameOf(row.agentId))), next }
    },
    async execution(id, caller = OPERATOR) {
      const row = await ledger.execution(Number(id))
      if (row !== undefined && isCallerSeen(row.callerId, ownerSeen(caller)))
        return executionRecord(row, nameOf(row.agentId))
      throw new CodedError('UNKNOWN_EXECUTION', 'no execution has this id, or it is no longer kept')
    },
  }
}

function executionRecord(row: StoredExecution, agentName: string | undefined): ExecutionRecord {
  return {
    id: String(row.id),
    agent_id: row.agentId,
    ...(agentName !== undefined && { agent_name: agentName }),
    caller_id: row.callerId,
    correlation_id: row.correlationId,
    input: row.input,
    ...defined({ output: row.output, error: row.error, payment_id: row.paymentId }),
    ...(row.error === RUN_CANCELED && { canceled: true as const }),
    created_at: isoTime(row.createdAt),
    duration_ms: row.durationMs,
  }
}
