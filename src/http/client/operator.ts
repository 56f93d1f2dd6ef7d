import * as z from 'zod'
import { formatPrice } from '../../schema/amount.ts'
import { Listings } from '../../schema/api.ts'
import { Diagnosis } from '../../schema/diagnosis.ts'
import type { ImportAgent } from '../../schema/import.ts'
import { type PaymentQuery, PaymentRecords, Stats } from '../../schema/ledger.ts'
import { RUN_SECONDS_MAX } from '../../schema/limits.ts'
import { Listing } from '../../schema/listing.ts'
import { OwnAgent, OwnAgents, ReloadedAgents, TestResult, type UpdateAgent } from '../../schema/own-agent.ts'
import type { Page } from '../../schema/page.ts'
import { PaymentRecord } from '../../schema/payment-record.ts'
import { Pricing } from '../../schema/pricing.ts'
import { type AccessCalls, accessCalls } from './access.ts'
import { at, type Options, type PageOptions, type Requests } from './requests.ts'

/** The operator's calls to a node. The functions throw the errors of ApiClient. */
export type OperatorCalls = AccessCalls & {
  ownAgents(options?: Options): Promise<OwnAgent[]>
  reloadAgents(options?: Options): Promise<ReloadedAgents>
  updateAgent(id: string, change: UpdateAgent, options?: Options): Promise<OwnAgent>
  pauseAgent(id: string, options?: Options): Promise<OwnAgent>
  resumeAgent(id: string, options?: Options): Promise<OwnAgent>
  removeAgent(id: string, options?: Options): Promise<OwnAgent>
  testAgent(id: string, task: string, options?: Options): Promise<TestResult>
  importAgent(agent: z.input<typeof ImportAgent>, options?: Options): Promise<Listing>
  imports(options?: Options): Promise<Listing[]>
  removeImport(id: string, options?: Options): Promise<Listing>
  payments(
    query?: PageOptions & Partial<Pick<PaymentQuery, 'direction' | 'state'>>,
    options?: Options,
  ): Promise<Page<PaymentRecord>>
  payment(id: string, options?: Options): Promise<PaymentRecord>
  retryPayment(id: string, options?: Options): Promise<PaymentRecord>
  /** Pays a payment back and waits until the transaction is mined. */
  refundPayment(id: string, options?: Options): Promise<PaymentRecord>
  stats(query?: { days?: number }, options?: Options): Promise<Stats>
  diagnosis(options?: Options): Promise<Diagnosis>
}

/** Time for a refund to be mined. */
const CHAIN_TIMEOUT_MS = 120_000
/** The longest run of an agent, plus 30 s. */
const TEST_TIMEOUT_MS = (RUN_SECONDS_MAX + 30) * 1000

/** Modules of many agents may have to load. */
const RELOAD_TIMEOUT_MS = 60_000

const usdc = (amount: bigint) => Number(formatPrice(amount))

export function operatorCalls({ request, linked }: Requests): OperatorCalls {
  const own = (id: string, verb: string, options?: Options) =>
    request(`${at('agents', id)}/${verb}`, OwnAgent, options, {})
  return {
    ...accessCalls({ request, linked }),
    ownAgents: (options) => request('/agents/own', OwnAgents, options),
    reloadAgents: (options) =>
      request('/agents/reload', ReloadedAgents, { timeoutMs: RELOAD_TIMEOUT_MS, ...options }, {}),
    updateAgent(id, { price, pricing, max_price, ...change }, options) {
      const amounts = {
        ...(price !== undefined && { price: usdc(price) }),
        ...(pricing !== undefined && { pricing: pricing && z.encode(Pricing, pricing) }),
        ...(max_price !== undefined && { max_price: max_price === null ? null : usdc(max_price) }),
      }
      const body = { ...change, ...amounts }
      return request(at('agents', id), OwnAgent, options, body, 'PATCH')
    },
    pauseAgent: (id, options) => own(id, 'pause', options),
    resumeAgent: (id, options) => own(id, 'resume', options),
    removeAgent: (id, options) => request(at('agents', id), OwnAgent, options, undefined, 'DELETE'),
    testAgent: (id, task, options) =>
      request(`${at('agents', id)}/test`, TestResult, { timeoutMs: TEST_TIMEOUT_MS, ...options }, { task }),
    importAgent: (agent, options) => request('/imports', Listing, options, agent),
    imports: (options) => request('/imports', Listings, options),
    removeImport: (id, options) => request(at('imports', id), Listing, options, undefined, 'DELETE'),
    async payments(query = {}, options) {
      const { body, next } = await linked('/payments', query, PaymentRecords as z.ZodType<PaymentRecord[]>, options)
      return { items: body, next }
    },
    payment: (id, options) => request(at('payments', id), PaymentRecord, options),
    retryPayment: (id, options) => request(`${at('payments', id)}/retry`, PaymentRecord, options, {}),
    refundPayment: (id, options) =>
      request(`${at('payments', id)}/refund`, PaymentRecord, { timeoutMs: CHAIN_TIMEOUT_MS, ...options }, {}),
    diagnosis: (options) => request('/diagnosis', Diagnosis, options),
    stats: ({ days = 30 } = {}, options) => request(`/stats?days=${days}`, Stats, options),
  }
}
