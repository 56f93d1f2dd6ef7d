import { useEffect, useState } from 'react'
import { isMissing, type Query } from '../api/client.ts'
import { usePages } from '../api/pages.ts'
import type { Listing } from '../api/types.ts'
import { duration, isAmount, percent, price, short } from '../format.ts'
import { PageHead } from '../parts/bits.tsx'
import { Field, NO_AMOUNT } from '../parts/field.tsx'
import { Empty, Loading, Problem, Unavailable } from '../parts/states.tsx'
import { WindowedList } from '../parts/windowed-list.tsx'
import { Link, useQuery } from '../router.tsx'

const PAGE_ITEMS = 50
/** After the last key, before the node is asked. */
const TYPING_MS = 200
const byId = ({ id }: Listing) => id

export function Market() {
  const [query, change] = useQuery()
  const get = (name: string) => query.get(name) ?? ''
  const price = get('max_price')
  const asked: Query = {
    q: get('q'),
    tags: get('tags'),
    max_price: isAmount(price) ? price : '',
    free: get('free'),
    online: get('online'),
    sort: get('sort'),
    seller_id: get('seller_id'),
    include: 'stats',
    limit: PAGE_ITEMS,
  }
  const pages = usePages<Listing>('/agents', asked, { id: byId, topics: ['listing'], everyMs: 10_000 })
  const isFiltered = [...query].length > 0

  return (
    <>
      <PageHead title="Market" />
      <Filters get={get} change={change} />
      {pages.error !== undefined && pages.items.length === 0 ? (
        isMissing(pages.error) ? (
          <Unavailable what="The market is" />
        ) : (
          <Problem error={pages.error} retry={pages.reload} />
        )
      ) : pages.loading ? (
        <Loading what="Looking" />
      ) : pages.items.length === 0 ? (
        <Nothing isFiltered={isFiltered} />
      ) : (
        <>
          <p className="muted tally" role="status">
            {pages.items.length}
            {pages.more ? ' and more' : ''} {pages.items.length === 1 && !pages.more ? 'agent' : 'agents'}
          </p>
          <WindowedList label="Agents on the market" pages={pages} id={byId} rowHeight={[76, 116]}>
            {(listing) => <Row listing={listing} />}
          </WindowedList>
        </>
      )}
    </>
  )
}

type FilterProps = { get(name: string): string; change(changes: Record<string, string>): void }

function Filters({ get, change }: FilterProps) {
  return (
    <search className="filters">
      <Typed label="What should it do?" name="q" get={get} change={change} type="search" className="wide" />
      <Typed label="Tags" name="tags" get={get} change={change} placeholder="text, contract" />
      <Typed label="At most, USDC" name="max_price" get={get} change={change} inputMode="decimal" />
      <label>
        Cost
        <select value={get('free')} onChange={(event) => change({ free: event.target.value })}>
          <option value="">any</option>
          <option value="true">free</option>
          <option value="false">paid</option>
        </select>
      </label>
      <label>
        Seller
        <select value={get('online')} onChange={(event) => change({ online: event.target.value })}>
          <option value="">any</option>
          <option value="true">online</option>
        </select>
      </label>
      <label>
        Order
        <select value={get('sort')} onChange={(event) => change({ sort: event.target.value })}>
          <option value="">best first</option>
          <option value="price">cheapest first</option>
          <option value="newest">newest first</option>
        </select>
      </label>
      {get('seller_id') !== '' && (
        <button type="button" onClick={() => change({ seller_id: '' })}>
          Only seller {short(get('seller_id'))}: show all
        </button>
      )}
    </search>
  )
}

type TypedProps = FilterProps & {
  label: string
  name: string
  type?: string
  className?: string
  placeholder?: string
  inputMode?: 'decimal'
}

/** A field that searches when typing has paused. */
function Typed({ label, name, get, change, className, ...input }: TypedProps) {
  const given = get(name)
  const [text, setText] = useState(given)
  // biome-ignore lint/correctness/useExhaustiveDependencies: `change` is new each time, and means the same
  useEffect(() => {
    if (text === given) return
    const timer = setTimeout(() => change({ [name]: text.trim() }), TYPING_MS)
    return () => clearTimeout(timer)
  }, [text, given, name])
  const isWrong = name === 'max_price' && text !== '' && !isAmount(text)
  return (
    <div className={className}>
      <Field label={label} error={isWrong && NO_AMOUNT}>
        <input value={text} onChange={(event) => setText(event.target.value)} {...input} />
      </Field>
    </div>
  )
}

function Row({ listing }: { listing: Listing }) {
  const { stats, reputation } = listing
  return (
    <Link to={`/market/${listing.id}`} className="row market-row">
      <span className="row-main">
        <span className="row-title">
          {listing.name}
          {listing.local && <span className="tag">yours</span>}
          {listing.look_alike_of !== undefined && <span className="tag warn">looks like another</span>}
        </span>
        <span className="row-text">{listing.description}</span>
        <span className="row-meta">
          {short(listing.seller_id, 4)}
          {listing.tags.slice(0, 4).map((tag) => (
            <span key={tag} className="tag">
              {tag}
            </span>
          ))}
        </span>
      </span>
      <span className="row-side">
        <span className="price">{price(listing.price)}</span>
        <span className="row-meta">
          {listing.local ? '' : listing.online === true ? 'online' : listing.online === false ? 'offline' : ''}
          {!listing.local &&
            listing.online === true &&
            listing.latency_ms !== undefined &&
            ` · ${duration(listing.latency_ms)}`}
        </span>
        <span className="row-meta">
          {stats !== undefined && stats.calls > 0 && `${percent(stats.success_rate)} of ${stats.calls} calls`}
          {reputation?.count ? ` · rated ${reputation.score ?? reputation.value} (${reputation.count})` : ''}
        </span>
      </span>
    </Link>
  )
}

function Nothing({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <Empty title="No agent fits">Use fewer words, or loosen the filters.</Empty>
  return (
    <Empty title="No agent is known yet">
      Agents appear here as this node meets others. See under <Link to="/network">Network</Link> whether it has peers,
      or <Link to="/agents/new">add an agent</Link> of your own.
    </Empty>
  )
}
