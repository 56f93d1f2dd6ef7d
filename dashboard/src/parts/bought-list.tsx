import { page } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { OrderRecord } from '../api/types.ts'
import { amount, price, short } from '../format.ts'
import { Link } from '../router.tsx'
import { Ago, Badge } from './bits.tsx'
import { BookBadge } from './book-badge.tsx'
import { Empty, Show } from './states.tsx'

const SHOWN = 6
const TEXT_SHOWN = 140

/** The latest purchases with their costs. */
export function BoughtList() {
  const orders = useResource('latest orders', (signal) => page<OrderRecord>('/orders', { limit: SHOWN }, signal), {
    topics: ['order', 'payment'],
    everyMs: 10_000,
  })
  return (
    <Show of={orders} what="Orders are">
      {({ items }) =>
        items.length === 0 ? (
          <Empty title="Nothing bought yet">
            <Link to="/market" className="button">
              Look at the market
            </Link>
          </Empty>
        ) : (
          <ul className="plain-rows" aria-label="Latest purchases">
            {items.map((order) => (
              <li key={order.id}>
                <Row order={order} />
              </li>
            ))}
          </ul>
        )
      }
    </Show>
  )
}

/** The text for an order without a signed payment. */
function unpaidText({ price: most, status, approval_id }: OrderRecord): string {
  if (Number(most) === 0) return price(0)
  if (status === 'pending' && approval_id !== undefined) return `at most ${amount(most)}, waits for approval`
  return status === 'pending' || status === 'executing' ? `at most ${amount(most)}` : 'nothing signed'
}

function Row({ order }: { order: OrderRecord }) {
  const { status, task, error, payment } = order
  return (
    <Link to={`/orders/${order.id}`} className="row">
      <span className="row-main">
        <span className="row-title">{order.agent_name ?? short(order.agent_id)}</span>
        <span className={error === undefined ? 'row-meta' : 'row-meta bad-text'}>
          {(error?.message ?? task ?? 'waits for a task').slice(0, TEXT_SHOWN)}
        </span>
      </span>
      <span className="row-side">
        <span>
          {payment === undefined ? (
            <span className="muted">{unpaidText(order)}</span>
          ) : (
            <>
              <span className="price">{amount(payment.amount)}</span> <BookBadge book={payment.book} />
            </>
          )}
        </span>
        <span className="row-meta">
          <Badge state={status} /> · <Ago iso={order.created_at} />
        </span>
      </span>
    </Link>
  )
}
