import { useState } from 'react'
import { call, isMissing } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { PaymentRecord, ReceiptRecord } from '../api/types.ts'
import { moment } from '../format.ts'
import { Ago, Facts, Id, Section } from './bits.tsx'
import { PaymentFacts } from './payment-facts.tsx'
import { Problem, Show } from './states.tsx'
import { say } from './toasts.tsx'

/** A payment to its last detail: what was signed, when, what became of it, and the receipt. */
export function Exchange({ paymentId }: { paymentId: string }) {
  const path = `/payments/${encodeURIComponent(paymentId)}`
  const payment = useResource(path, (signal) => call<PaymentRecord>(path, { signal }), {
    topics: ['payment'],
    everyMs: 3_000,
  })
  return (
    <>
      <Section title="Payment">
        <Show of={payment} what="This payment is">
          {(record) => (
            <>
              <PaymentFacts payment={record} state={record.state} />
              <Facts
                rows={[
                  ['Signed nonce', <Id key="nonce" value={record.nonce} ends={10} what="nonce" />],
                  ['Valid', `${moment(record.valid_after)} to ${moment(record.valid_before)}`],
                  ['Last change', <Ago key="at" iso={record.updated_at} />],
                  record.attempts !== undefined && ['Attempts', `${record.attempts} of at most 5`],
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
      <Receipt paymentId={paymentId} />
    </>
  )
}

/** Whether the outbox may still bring it. */
export function Retry({ payment, onDone }: { payment: PaymentRecord; onDone(): void }) {
  const [error, setError] = useState<Error>()
  const [busy, setBusy] = useState(false)
  if (payment.state !== 'failed' && payment.state !== 'pending') return null

  async function retry() {
    setBusy(true)
    setError(undefined)
    try {
      await call(`/payments/${payment.payment_id}/retry`, { method: 'POST' })
      say('Settlement is tried again.')
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
  valid: 'signed by the account that was paid',
  missing: 'the seller sent none; the result was taken all the same',
  wrong: 'the seller sent one that does not fit',
}

function Receipt({ paymentId }: { paymentId: string }) {
  const path = `/receipts/${encodeURIComponent(paymentId)}`
  const receipt = useResource(path, (signal) => call<ReceiptRecord>(path, { signal }), {
    topics: ['payment', 'order'],
    everyMs: 15_000,
  })
  if (receipt.data === undefined || isMissing(receipt.error)) return null
  const { status, note, receipt: signed, issued_at } = receipt.data
  return (
    <Section title="Receipt">
      <Facts
        rows={[
          ['Receipt', note ?? meanings[status]],
          issued_at !== undefined && ['Issued', <Ago key="at" iso={issued_at} />],
          signed !== undefined && [
            'Task hash',
            <Id key="task" value={signed.payload.taskHash} ends={10} what="hash" />,
          ],
          signed !== undefined && [
            'Result hash',
            <Id key="result" value={signed.payload.resultHash} ends={10} what="hash" />,
          ],
          signed !== undefined && [
            'Signature',
            <Id key="signature" value={signed.signature} ends={10} what="signature" />,
          ],
        ]}
      />
      <p className="hint">
        <code>stoa receipts verify</code> checks it without a node, and says what it proves.
      </p>
    </Section>
  )
}
