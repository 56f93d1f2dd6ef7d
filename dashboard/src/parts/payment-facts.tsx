import type { PaymentRecord } from '../api/types.ts'
import { amount, explorerUrl, networkName, unitsText } from '../format.ts'
import { meaningOf } from '../payment-words.ts'
import { Link } from '../router.tsx'
import { Ago, Facts, Id, useNow } from './bits.tsx'
import { BookBadge } from './book-badge.tsx'

/** The book and amount of a payment, with a link to the transaction. */
export function PaymentFacts({ payment }: { payment: PaymentRecord }) {
  return (
    <>
      <p className="paid-amount">
        {amount(payment.amount)} <BookBadge book={payment.book} />
      </p>
      <p className="muted">{meaningOf(payment)}</p>
      <Facts
        rows={[
          payment.channel_id === undefined
            ? ['Transaction', <Transaction key="tx" payment={payment} />]
            : ['Payment channel', <ChannelLink key="channel" id={payment.channel_id} />],
          payment.units !== undefined && ['Used', unitsText(payment.units)],
          payment.cut === true && ['Output', 'ends with what was paid for'],
          payment.book === 'held' &&
            payment.valid_before !== undefined && [
              'Can be charged',
              <Deadline key="until" iso={payment.valid_before} />,
            ],
          ['Network', networkName(payment.network)],
          ['From', <Id key="from" value={payment.payer} what="address" />],
          ['To', <Id key="to" value={payment.pay_to} what="address" />],
          ['Payment', <Id key="id" value={payment.payment_id} what="payment id" />],
        ]}
      />
    </>
  )
}

/** The claim of its channel covers a call, which has no transaction of its own. */
function ChannelLink({ id }: { id: string }) {
  return (
    <span className="with-link">
      <Id value={id} what="channel id" />
      <Link to={`/channels/${id}`}>view</Link>
    </span>
  )
}

function Deadline({ iso }: { iso: string }) {
  const isOver = Date.parse(iso) < useNow()
  return isOver ? (
    <>until the chain shows a block after the payment expires</>
  ) : (
    <span>
      until the payment expires <Ago iso={iso} />
    </span>
  )
}

function Transaction({ payment: { tx_hash, network, state } }: { payment: PaymentRecord }) {
  if (tx_hash === '') return <>{state === 'pending' || state === 'reserved' ? 'none yet' : 'none'}</>
  const url = explorerUrl(network, tx_hash)
  return (
    <span className="with-link">
      <Id value={tx_hash} what="transaction hash" />
      {state === 'claimed' && <span className="muted">named by the seller</span>}
      {url !== undefined && (
        <a href={url} target="_blank" rel="noreferrer noopener">
          view
        </a>
      )}
    </span>
  )
}
