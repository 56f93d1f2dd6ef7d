import type { Book, Stats } from '../api/types.ts'
import { count, money, sentence } from '../format.ts'
import { books } from '../payment-words.ts'
import { Figure } from './bits.tsx'

type Sum = { book: Book; value: string; note: string }

/** The sum of each book (D42), with its meaning. */
export function BookFigures({ stats }: { stats: Stats }) {
  const open = (book: Exclude<Book, 'paid' | 'earned'>): Sum => {
    const { amount, payments } = stats[book]
    return { book, value: money(amount), note: payments === 1 ? '1 payment' : `${count(payments)} payments` }
  }
  const total = (book: 'paid' | 'earned'): Sum => {
    const { month, total } = stats[book]
    return { book, value: money(month), note: `in 30 days, ${money(total)} in total` }
  }
  const bought = [total('paid'), open('held'), open('not_charged')]
  const sold = [total('earned'), open('owed'), open('lost'), open('refused')]
  const hasBought = Number(stats.paid.total) > 0 || stats.held.payments + stats.not_charged.payments > 0
  const hasSold =
    Number(stats.earned.total) > 0 || stats.owed.payments + stats.lost.payments + stats.refused.payments > 0
  // A node that only buys or only sells does not see the other half.
  return (
    <>
      {(hasBought || !hasSold) && <Row title="Bought" sums={bought} />}
      {(hasSold || !hasBought) && <Row title="Sold" sums={sold} />}
      {stats.refunded.payments > 0 && <Row title="Paid back" sums={[open('refunded')]} />}
    </>
  )
}

function Row({ title, sums }: { title: string; sums: readonly Sum[] }) {
  return (
    <>
      <h2 className="figures-title">{title}</h2>
      <dl className="figures">
        {sums.map(({ book, value, note }) => (
          <Figure
            key={book}
            label={sentence(books[book].word)}
            value={value}
            unit="USDC"
            note={
              <>
                {note}
                <span className="block">{books[book].says}</span>
              </>
            }
          />
        ))}
      </dl>
    </>
  )
}
