import type { RecordedPayment } from '../api/types.ts'
import { explorerUrl, money, networkName } from '../format.ts'
import { Badge, Facts, Id } from './bits.tsx'

const meanings: Record<string, string> = {
  settled: 'On the chain.',
  pending: 'Signed and owed; the seller is about to settle it.',
  reserved: 'Signed: the seller could still settle it.',
  released: 'Can never be settled: nothing was charged.',
  voided: 'The agent failed: nobody is charged.',
  failed: 'You worked and were not paid.',
}

export function PaymentFacts({ payment }: { payment: RecordedPayment }) {
  const url = payment.tx_hash === '' ? undefined : explorerUrl(payment.network, payment.tx_hash)
  return (
    <Facts
      rows={[
        ['Amount', `${money(payment.amount)} USDC`],
        [
          'State',
          <span key="state">
            <Badge state={payment.settlement} /> <span className="muted">{meanings[payment.settlement]}</span>
          </span>,
        ],
        [
          'Transaction',
          payment.tx_hash === '' ? (
            'none yet'
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
        ['Payment', <Id key="id" value={payment.payment_id} what="payment id" />],
      ]}
    />
  )
}
