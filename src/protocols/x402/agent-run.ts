import { AgentError } from '../../agents/runtime.ts'
import { reasonOf } from '../../lib/errors.ts'
import type { ReceiptForm } from '../../schema/receipt.ts'
import type { NewExchange } from '../../store/exchanges.ts'
import type { Claim } from '../../store/payments.ts'
import { type Caller, type PaidRunDeps, runCall, type ServedAgent } from './exchange.ts'

/** How a run ended, as the store keeps it. */
export type RunOutcome = { exchange: NewExchange; receiptForm: ReceiptForm } & (
  | { output: string /** A limit ended it: the output is what was shown. */; isLimited?: true }
  | { failure: unknown }
)

/** Runs an agent for a payment that covers the run. Never throws. */
export async function runAgent(
  agent: ServedAgent,
  { payment, input }: { payment: Pick<Claim, 'id' | 'correlationId'>; input: string },
  caller: Caller,
  deps: PaidRunDeps,
): Promise<RunOutcome> {
  const ids = { payment_id: payment.id, correlation_id: payment.correlationId }
  const started = deps.clock.now()
  const record = (): NewExchange => ({
    agentId: agent.id,
    callerId: caller.callerDid,
    correlationId: payment.correlationId,
    input,
    paymentId: payment.id,
    createdAt: started,
    durationMs: deps.clock.now() - started,
  })
  const { receiptForm = 'eip712' } = caller
  let shown = ''
  const show = (text: string) => {
    shown += text
    return caller.onOutput?.(text)
  }
  const isShown = caller.onOutput !== undefined && agent.streaming !== 'off'
  try {
    const call = runCall(caller, input, { id: payment.id, isPaid: true })
    const output = await agent.run({ ...call, ...(isShown && { onOutput: show }) })
    deps.logger.debug(ids, 'a paid run is done')
    return { output, exchange: record(), receiptForm }
  } catch (failure) {
    if (shown !== '' && isLimit(failure)) {
      deps.logger.info({ ...ids, err: failure }, 'a limit ended a paid run: what was shown is its result')
      return { output: shown, isLimited: true, exchange: record(), receiptForm }
    }
    if (caller.signal.aborted) deps.logger.info({ ...ids, reason: reasonOf(failure) }, 'a paid run was canceled')
    else deps.logger.warn({ ...ids, err: failure }, 'a paid run failed')
    return { failure, exchange: record(), receiptForm }
  }
}

/** True for a limit that a task can push an agent over: the output until then is delivered and owed for (T6). */
function isLimit(failure: unknown): boolean {
  return (
    failure instanceof AgentError && (failure.code === 'AGENT_TIMEOUT' || failure.code === 'AGENT_OUTPUT_TOO_LARGE')
  )
}
