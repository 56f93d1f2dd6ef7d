import { page } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { Budget, OrderRecord, Stats } from '../api/types.ts'
import { count, money } from '../format.ts'
import { Link } from '../router.tsx'
import { Figure, Section, useNow } from './bits.tsx'
import { BoughtList } from './bought-list.tsx'
import { BudgetLeft } from './budget-left.tsx'

const DAY_MS = 24 * 60 * 60 * 1000
const FAILED_MAX = 50

/** This node's purchases: paid, held and failed amounts, and the rest of the budget. */
export function Buying({ stats: { paid, held, not_charged }, budget }: { stats: Stats; budget: Budget | undefined }) {
  return (
    <>
      <Section title="Buying" aside={<Link to="/market">Market</Link>}>
        <dl className="figures">
          <Figure label="Paid today" value={money(paid.today)} unit="USDC" note={`${money(paid.month)} in 30 days`} />
          <Figure
            label="Held"
            value={money(held.amount)}
            unit="USDC"
            note={
              held.payments === 0
                ? `nothing open, ${money(not_charged.amount)} not charged`
                : `${count(held.payments)} may still be charged`
            }
          />
          <Failed />
          {budget !== undefined && <BudgetLeft budget={budget} />}
        </dl>
      </Section>
      <Section title="Latest purchases" aside={<Link to="/activity">All activity</Link>}>
        <BoughtList />
      </Section>
    </>
  )
}

function Failed() {
  const now = useNow()
  const failed = useResource(
    'failed orders',
    (signal) => page<OrderRecord>('/orders', { status: 'failed', limit: FAILED_MAX }, signal),
    { topics: ['order'], everyMs: 30_000 },
  )
  const items = failed.data?.items ?? []
  const late = items.filter(({ created_at }) => now - Date.parse(created_at) < DAY_MS)
  const isMore = late.length === items.length && failed.data?.next !== undefined
  return (
    <Figure
      label="Failed in 24 h"
      value={failed.data === undefined ? '–' : `${count(late.length)}${isMore ? '+' : ''}`}
      note={noteOf(failed.data?.items)}
    />
  )
}

function noteOf(failed: readonly OrderRecord[] | undefined) {
  if (failed === undefined) return 'not known'
  const [newest] = failed
  return newest === undefined ? 'no purchase failed' : <Link to={`/orders/${newest.id}`}>See the latest</Link>
}
