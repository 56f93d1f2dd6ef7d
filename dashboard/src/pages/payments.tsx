import { useState } from 'react'
import { alertOf } from '../alerts.ts'
import { useAlarms } from '../api/alarms.ts'
import { call, download, isMissing } from '../api/client.ts'
import { usePages } from '../api/pages.ts'
import { useResource } from '../api/resource.ts'
import type { Book, PaymentRecord, Stats } from '../api/types.ts'
import { amount, sentence, short, signed } from '../format.ts'
import { AgentName } from '../parts/agent-name.tsx'
import { AlertList } from '../parts/alert-list.tsx'
import { Ago, PageHead, Section } from '../parts/bits.tsx'
import { BookBadge } from '../parts/book-badge.tsx'
import { BookFigures } from '../parts/book-figures.tsx'
import { MoneyChart } from '../parts/money-chart.tsx'
import { Outbox } from '../parts/outbox.tsx'
import { Empty, Loading, Problem, Show, Unavailable } from '../parts/states.tsx'
import { WindowedList } from '../parts/windowed-list.tsx'
import { books } from '../payment-words.ts'
import { Link, useQuery } from '../router.tsx'

const PAGE_ITEMS = 50
const byId = ({ payment_id, direction }: PaymentRecord) => direction + payment_id
const words: readonly Book[] = ['paid', 'held', 'not_charged', 'earned', 'owed', 'lost', 'refused', 'refunded']
const isWord = (text: string): text is Book => words.some((word) => word === text)

export function Payments() {
  const stats = useResource('/stats', (signal) => call<Stats>('/stats?days=30', { signal }), {
    topics: ['payment', 'order'],
  })
  return (
    <>
      <PageHead title="Payments">
        <Export />
      </PageHead>
      <Alarms />
      <Show of={stats} what="Totals are">
        {(known) => (
          <>
            <BookFigures stats={known} />
            <MoneyChart stats={known} />
          </>
        )}
      </Show>
      <Outbox />
      <List />
    </>
  )
}

/** Alarms about money. The overview shows all other alarms. */
function Alarms() {
  const alarms = useAlarms()
  const own = (alarms.data ?? []).filter(({ kind }) => kind === 'work_unpaid' || kind === 'settlement_stuck')
  if (own.length === 0) return null
  return (
    <section className="section" aria-label="Needs your attention">
      <AlertList alerts={own.map(alertOf)} onDismissed={alarms.reload} />
    </section>
  )
}

function Export() {
  const [error, setError] = useState<Error>()
  const save = (format: 'csv' | 'json') => {
    setError(undefined)
    download(`/receipts/export?format=${format}`, `stoa-receipts.${format}`).catch(setError)
  }
  return (
    <>
      {error !== undefined && (
        <span className="bad-text" role="alert">
          {isMissing(error) ? 'This node has no receipts.' : error.message}
        </span>
      )}
      <button type="button" onClick={() => save('csv')}>
        Receipts as CSV
      </button>
      <button type="button" onClick={() => save('json')}>
        as JSON
      </button>
    </>
  )
}

function List() {
  const [query, change] = useQuery()
  const given = query.get('book') ?? ''
  const book = isWord(given) ? given : undefined
  const pages = usePages<PaymentRecord>(
    '/payments',
    { book, limit: PAGE_ITEMS },
    { id: byId, topics: ['payment', 'order'] },
  )
  return (
    <Section title="All payments">
      <fieldset className="choices" aria-label="Which payments">
        <button type="button" aria-pressed={book === undefined} onClick={() => change({ book: '' })}>
          All
        </button>
        {words.map((word) => (
          <button type="button" key={word} aria-pressed={book === word} onClick={() => change({ book: word })}>
            {sentence(books[word].word)}
          </button>
        ))}
      </fieldset>
      {book !== undefined && (
        <p className="hint">
          {sentence(books[book].word)}: {books[book].says}.
        </p>
      )}
      {pages.loading ? (
        <Loading />
      ) : pages.items.length > 0 ? (
        <WindowedList label="Payments, newest first" pages={pages} id={byId} rowHeight={[62, 84]}>
          {(payment) => <Row payment={payment} />}
        </WindowedList>
      ) : isMissing(pages.error) ? (
        <Unavailable what="Payments are" />
      ) : pages.error !== undefined ? (
        <Problem error={pages.error} retry={pages.reload} />
      ) : (
        <Empty title="No payments">
          {book === undefined
            ? 'Every paid call that you sell or buy appears here.'
            : `No payment is ${books[book].word}.`}
        </Empty>
      )}
    </Section>
  )
}

/** Books whose amounts have moved or will move. Amounts that were not charged, lost or refused have no sign. */
const moving: readonly Book[] = ['paid', 'held', 'earned', 'owed']

function Row({ payment }: { payment: PaymentRecord }) {
  const { direction, book } = payment
  const isIn = direction === 'in'
  const isMoving = moving.includes(book)
  return (
    <Link to={`/payments/${payment.payment_id}`} className="row activity-row">
      <span className="row-kind muted">{isIn ? 'Sold' : 'Bought'}</span>
      <span className="row-main">
        <span className="row-title">
          <AgentName id={payment.agent_id} name={payment.agent_name} />
        </span>
        <span className="row-meta">
          {isIn ? 'from' : 'to'} {short(payment.peer_id, 5)}
          {payment.tx_hash !== '' && ` · ${short(payment.tx_hash, 6)}`}
          {payment.channel_id !== undefined && ` · on channel ${short(payment.channel_id, 6)}`}
          {payment.state === 'claimed' && ' · not on the chain yet'}
        </span>
      </span>
      <span className="row-side">
        <span className={isMoving ? 'price' : 'muted'}>
          {isMoving ? signed(direction, payment.amount) : amount(payment.amount)}
        </span>
        <span className="row-meta">
          <BookBadge book={book} /> · <Ago iso={payment.created_at} />
        </span>
      </span>
    </Link>
  )
}
