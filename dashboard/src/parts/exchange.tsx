import { useState } from 'react'
import { call, isMissing } from '../api/client.ts'
import { type Resource, useResource } from '../api/resource.ts'
import type { OrderRecord, PaymentRecord, ReceiptRecord } from '../api/types.ts'
import type { KnownExchange } from '../frames.ts'
import { Ago, Facts, Id, Section } from './bits.tsx'
import { Frames } from './frames.tsx'
import { PaymentFacts } from './payment-facts.tsx'
import { Problem, Show } from './states.tsx'
import { say } from './toasts.tsx'

/** A payment with all known records of its exchange, kept up to date. */
export function useExchange(paymentId: string | undefined, known: KnownExchange) {
  const path = paymentId && `/payments/${encodeURIComponent(paymentId)}`
  const payment = useResource(path, (signal) => call<PaymentRecord>(path!, { signal }), {
    topics: ['payment'],
    everyMs: 3_000,
  })
  const receiptPath = paymentId && `/receipts/${encodeURIComponent(paymentId)}`
  const receipt = useResource(receiptPath, (signal) => call<ReceiptRecord>(receiptPath!, { signal }), {
    topics: ['payment', 'order'],
    everyMs: 15_000,
  })
  const orderId = known.order === undefined ? payment.data?.order_id : undefined
  const orderPath = orderId && `/orders/${encodeURIComponent(orderId)}`
  const order = useResource(orderPath, (signal) => call<OrderRecord>(orderPath!, { signal }), { topics: ['order'] })
  const shown = isMissing(receipt.error) ? undefined : receipt.data
  const all: KnownExchange = { order: order.data, ...known, payment: payment.data, receipt: shown }
  return { payment, receipt: shown, known: all }
}

/** All details of a payment: its outcome, its receipt, and the frames of the exchange. */
export function Exchange({ paymentId, ...known }: { paymentId: string } & KnownExchange) {
  const { payment, receipt, known: all } = useExchange(paymentId, known)
  return (
    <>
      <PaymentPanel payment={payment} />
      {receipt !== undefined && <Receipt record={receipt} />}
      {payment.data !== undefined && <Frames known={all} />}
    </>
  )
}

export function PaymentPanel({ payment }: { payment: Resource<PaymentRecord> }) {
  return (
    <Section title="Payment">
      <Show of={payment} what="This payment is">
        {(record) => (
          <>
            <PaymentFacts payment={record} />
            <Facts
              rows={[
                ['Last change', <Ago key="at" iso={record.updated_at} />],
                record.attempts !== undefined && record.attempts > 0 && ['Attempts', `${record.attempts} of at most 5`],
                record.next_attempt_at !== undefined && [
                  'Next attempt',
                  <Ago key="next" iso={record.next_attempt_at} />,
                ],
                record.error !== undefined && [
                  'Last error',
                  <span key="error" className="bad-text">
                    {record.error}
                  </span>,
                ],
              ]}
            />
            {record.direction === 'in' && <Retry payment={record} onDone={payment.reload} />}
          </>
        )}
      </Show>
    </Section>
  )
}

/** A retry button for a payment that the outbox can still settle. */
export function Retry({ payment, onDone }: { payment: PaymentRecord; onDone(): void }) {
  const [error, setError] = useState<Error>()
  const [busy, setBusy] = useState(false)
  if (payment.state !== 'failed' && payment.state !== 'pending') return null

  async function retry() {
    setBusy(true)
    setError(undefined)
    try {
      await call(`/payments/${payment.payment_id}/retry`, { method: 'POST' })
      say('The node tries to settle again.')
      onDone()
    } catch (reason) {
      setError(reason as Error)
    }
    setBusy(false)
  }

  return (
    <div>
      <button type="button" disabled={busy} onClick={retry}>
        Try to settle now
      </button>
      {error !== undefined && <Problem error={error} />}
    </div>
  )
}

const meanings: Record<ReceiptRecord['status'], string> = {
  valid: 'signed by the paid account',
  missing: 'the seller sent no receipt; the result was accepted',
  wrong: 'the seller sent a receipt that does not match',
}

export function Receipt({ record }: { record: ReceiptRecord }) {
  const { status, note, receipt: signed, issued_at } = record
  return (
    <Section title="Receipt">
      <Facts
        rows={[
          ['Receipt', note ?? meanings[status]],
          issued_at !== undefined && ['Issued', <Ago key="at" iso={issued_at} />],
          signed !== undefined && ['Task hash', <Id key="task" value={signed.payload.taskHash} what="hash" />],
          signed !== undefined && ['Result hash', <Id key="result" value={signed.payload.resultHash} what="hash" />],
          signed !== undefined && ['Signature', <Id key="signature" value={signed.signature} what="signature" />],
        ]}
      />
      <p className="hint">
        <code>stoa receipts verify</code> checks the receipt offline and says what it proves.
      </p>
    </Section>
  )
}
