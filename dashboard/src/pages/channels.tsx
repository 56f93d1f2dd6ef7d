import { alertOf } from '../alerts.ts'
import { useAlarms } from '../api/alarms.ts'
import { isMissing } from '../api/client.ts'
import { usePages } from '../api/pages.ts'
import type { Channel } from '../api/types.ts'
import { channelStates, withdrawalClock } from '../channel-words.ts'
import { amount, short } from '../format.ts'
import { AlertList } from '../parts/alert-list.tsx'
import { Ago, Badge, PageHead, Section, useNow } from '../parts/bits.tsx'
import { PaidFigures, PayingFigures, useChannelSums } from '../parts/channel-figures.tsx'
import { Empty, Loading, Problem, Show, Unavailable } from '../parts/states.tsx'
import { WindowedList } from '../parts/windowed-list.tsx'
import { Link, useQuery } from '../router.tsx'

const PAGE_ITEMS = 50
const byId = ({ id, role }: Channel) => role + id

/** Payment channels of this node: many calls by one deposit. */
export function Channels() {
  const sums = useChannelSums()
  return (
    <>
      <PageHead title="Channels" />
      <p className="hint">
        A payment channel pays many calls by one deposit on the chain. What was charged is spent. The rest goes back to
        the payer.
      </p>
      <Alarms />
      <Show of={sums} what="Payment channels are">
        {(known) => (
          <>
            {known.paying.channels > 0 && (
              <>
                <h2 className="figures-title">You pay</h2>
                <PayingFigures sums={known} />
              </>
            )}
            {known.paid.channels > 0 && (
              <>
                <h2 className="figures-title">You are paid</h2>
                <PaidFigures sums={known} />
              </>
            )}
            <List />
          </>
        )}
      </Show>
    </>
  )
}

function Alarms() {
  const alarms = useAlarms()
  const own = (alarms.data ?? []).filter(({ kind }) => kind.startsWith('channel_'))
  if (own.length === 0) return null
  return (
    <section className="section" aria-label="Needs your attention">
      <AlertList alerts={own.map(alertOf)} onDismissed={alarms.reload} />
    </section>
  )
}

const roles = [
  ['', 'All'],
  ['buyer', 'You pay'],
  ['seller', 'You are paid'],
] as const

function List() {
  const [query, change] = useQuery()
  const role = roles.find(([name]) => name !== '' && name === query.get('role'))?.[0]
  const pages = usePages<Channel>('/channels', { role, limit: PAGE_ITEMS }, { id: byId, everyMs: 10_000 })
  return (
    <Section title="All channels">
      <fieldset className="choices" aria-label="Which channels">
        {roles.map(([name, text]) => (
          <button type="button" key={name} aria-pressed={(role ?? '') === name} onClick={() => change({ role: name })}>
            {text}
          </button>
        ))}
      </fieldset>
      {pages.loading ? (
        <Loading />
      ) : pages.items.length > 0 ? (
        <WindowedList label="Channels, newest first" pages={pages} id={byId} rowHeight={[62, 84]}>
          {(channel) => <Row channel={channel} />}
        </WindowedList>
      ) : isMissing(pages.error) ? (
        <Unavailable what="Payment channels are" />
      ) : pages.error !== undefined ? (
        <Problem error={pages.error} retry={pages.reload} />
      ) : (
        <Empty title="No channels">
          <p>
            This node opens channels for cheap and frequent calls, and offers them to its buyers, unless{' '}
            <code>buyer.channels</code> or <code>seller.channels</code> is <code>off</code>. Both need an RPC endpoint.
          </p>
        </Empty>
      )}
    </Section>
  )
}

function Row({ channel }: { channel: Channel }) {
  const { id, role, state, peer_id, peer_name, agent_name, calls, charged, free, unclaimed, withdrawal, used_at } =
    channel
  const now = useNow()
  const isBuyer = role === 'buyer'
  // A channel is with a seller, for all of its agents.
  const seller = agent_name && `Seller of ${agent_name}`
  return (
    <Link to={`/channels/${id}`} className="row activity-row">
      <span className="row-kind muted">{isBuyer ? 'You pay' : 'Pays you'}</span>
      <span className="row-main">
        <span className="row-title">
          {peer_name ?? seller ?? `${isBuyer ? 'Seller' : 'Buyer'} ${short(peer_id, 6)}`}
        </span>
        <span className="row-meta">
          {calls === 1 ? '1 call' : `${calls} calls`} · {amount(charged)} charged
          {!isBuyer && Number(unclaimed) > 0 && ` · ${amount(unclaimed)} not claimed`}
          {withdrawal !== undefined && ` · withdrawal ${withdrawalClock(withdrawal, now)}`}
        </span>
      </span>
      <span className="row-side">
        <span className="price">{amount(free)} free</span>
        <span className="row-meta">
          <Badge state={state} tone={channelStates[state].tone} /> · <Ago iso={used_at} />
        </span>
      </span>
    </Link>
  )
}
