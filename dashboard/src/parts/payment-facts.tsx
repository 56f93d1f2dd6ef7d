import type { RecordedPayment } from '../api/types.ts'
import { explorerUrl, money, networkName } from '../format.ts'
import { Badge, Facts, Id } from './bits.tsx'

type Settlement = RecordedPayment['settlement']

const meanings: Record<Settlement, string> = {
  settled: 'on the chain',
  claimed: 'the seller says so; the chain has not shown it yet',
  pending: 'owed, and about to be settled',
  reserved: 'signed: the seller could still settle it',
  released: 'can never be settled: nothing was charged',
  voided: 'the agent failed: nobody is charged',
  failed: 'the work was done and not paid',
}

export function PaymentFacts({ payment, state }: { payment: Omit<RecordedPayment, 'settlement'>; state: Settlement }) {
  const url = payment.tx_hash === '' ? undefined : explorerUrl(payment.network, payment.tx_hash)
  return (
    <Facts
      rows={[
        ['Amount', `${money(payment.amount)} USDC`],
        [
          'State',
          <span key="state">
            <Badge state={state} /> <span className="muted">{meanings[state]}</span>
          </span>,
        ],
        [
          'Transaction',
          payment.tx_hash === '' ? (
            state === 'pending' || state === 'reserved' ? (
              'none yet'
            ) : (
              'none'
            )
          ) : (
            <span key="tx" className="with-link">
              <Id value={payment.tx_hash} ends={10} what="transaction hash" />
              {url !== undefined && (
                <a href={url} target="_blank" rel="noreferrer noopener">
                  look it up
                </a>
              )}
            </span>
          ),
        ],
        ['Network', networkName(payment.network)],
        ['From', <Id key="from" value={payment.payer} what="address" />],
        ['To', <Id key="to" value={payment.pay_to} what="address" />],
        ['Payment', <Id key="id" value={payment.payment_id} ends={10} what="payment id" />],
      ]}
    />
  )
}
