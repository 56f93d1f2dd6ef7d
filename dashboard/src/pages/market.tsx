import { useState } from 'react'
import { isMissing, type Query } from '../api/client.ts'
import { usePages } from '../api/pages.ts'
import type { Listing } from '../api/types.ts'
import { agentPrice, count, duration, isAmount, money, networkName, percent, short } from '../format.ts'
import { PageHead } from '../parts/bits.tsx'
import { BuyDialog } from '../parts/buy-dialog.tsx'
import { Catalogs } from '../parts/catalog-entries.tsx'
import { SellerName } from '../parts/seller-name.tsx'
import { Empty, Loading, Problem, Unavailable } from '../parts/states.tsx'
import { type FilterProps, Typed } from '../parts/typed.tsx'
import { WindowedList } from '../parts/windowed-list.tsx'
import { Link, useQuery } from '../router.tsx'

const PAGE_ITEMS = 50
const byId = ({ id }: Listing) => id

export function Market() {
  const [query, change] = useQuery()
  const [chosen, setChosen] = useState<Listing>()
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
    // Agents that this node cannot buy are hidden unless the user asks for them (D37).
    network: get('network') || 'own',
    include: 'stats',
    limit: PAGE_ITEMS,
  }
  const pages = usePages<Listing>('/agents', asked, { id: byId, topics: ['listing'], everyMs: 10_000 })
  const isFiltered = [...query].length > 0

  return (
    <>
      <PageHead title="Market" />
      <Filters get={get} change={change} />
      <Catalogs get={get} change={change} />
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
          <Heads />
          <WindowedList label="Agents on the market" pages={pages} id={byId} rowHeight={[64, 136]}>
            {(listing) => <Row listing={listing} onBuy={() => setChosen(listing)} />}
          </WindowedList>
        </>
      )}
      {chosen !== undefined && <BuyDialog agent={chosen} onClose={() => setChosen(undefined)} />}
    </>
  )
}

function Filters({ get, change }: FilterProps) {
  return (
    <search className="filters">
      <Typed label="Task or name" name="q" get={get} change={change} type="search" className="wide" />
      <Typed label="Tags" name="tags" get={get} change={change} placeholder="text" />
      <Typed label="At most, USDC" name="max_price" get={get} change={change} inputMode="decimal" />
      <label>
        Price
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
        Network
        <select value={get('network')} onChange={(event) => change({ network: event.target.value })}>
          <option value="">own</option>
          <option value="any">any</option>
        </select>
      </label>
      <label>
        Sort by
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

const columns = ['Agent', 'Seller', 'Price, USDC', 'Calls', 'Success', 'Median', 'Rating'] as const

/** Column headings on wide pages. Each cell also names itself for screen readers. */
function Heads() {
  return (
    <div className="market-row market-heads" aria-hidden="true">
      {columns.map((name) => (
        <span key={name} className={name.split(',')[0]!.toLowerCase()}>
          {name}
        </span>
      ))}
      <span />
    </div>
  )
}

function Row({ listing, onBuy }: { listing: Listing; onBuy(): void }) {
  const { stats, reputation } = listing
  const isCalled = stats !== undefined && stats.calls > 0
  const cost = agentPrice(listing)
  return (
    <div className="row market-row">
      <span className="agent">
        <span className="row-title">
          <Link to={`/market/${listing.id}`} className="cover" aria-label={`${listing.name}, ${cost}`}>
            {listing.name}
          </Link>
          {listing.local && <span className="tag">yours</span>}
          {listing.imported !== undefined && <span className="tag warn">imported</span>}
          {!listing.buyable && <span className="tag warn">on {networkName(listing.network)}</span>}
          {listing.look_alike_of !== undefined && <span className="tag warn">looks like another</span>}
          {listing.tags.slice(0, 3).map((tag) => (
            <span key={tag} className="tag">
              {tag}
            </span>
          ))}
        </span>
        <span className="row-text">{listing.description}</span>
      </span>
      <span className="seller">
        <span className="hidden">Seller </span>
        {listing.local ? 'this node' : <SellerName of={listing} />}
        {!listing.local && <span className="row-meta">{presence(listing)}</span>}
      </span>
      <span className="price">
        {listing.pricing !== undefined && <span className="muted">up to </span>}
        {listing.price === 0 ? 'free' : money(listing.price)}
        {listing.price > 0 && <span className="price-unit"> USDC</span>}
      </span>
      <Cell name="Calls" text={isCalled ? count(stats.calls) : '–'} />
      <Cell name="Success" text={isCalled ? percent(stats.success_rate) : '–'} />
      <Cell name="Median" text={isCalled ? duration(stats.p50_ms) : '–'} />
      <Cell
        name="Rating"
        text={reputation?.count ? `${reputation.score ?? reputation.value} (${reputation.count})` : '–'}
      />
      {listing.buyable ? (
        <button type="button" className="do" onClick={onBuy}>
          {listing.local ? 'Run' : listing.price === 0 ? 'Try' : 'Buy'}
          <span className="hidden"> {listing.name}</span>
        </button>
      ) : (
        <button type="button" className="do" disabled title="A node buys only on its own network">
          Buy
        </button>
      )}
    </div>
  )
}

function Cell({ name, text }: { name: (typeof columns)[number]; text: string }) {
  return (
    <span className={`cell ${name.toLowerCase()}`}>
      <span className="cell-name">{name} </span>
      {text}
    </span>
  )
}

function presence({ online, latency_ms }: Listing): string {
  if (online === undefined) return 'not met'
  if (!online) return 'offline'
  return latency_ms === undefined ? 'online' : `online · ${duration(latency_ms)}`
}

function Nothing({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) {
    return <Empty title="No agent matches">Use fewer words or fewer filters, or search on any network.</Empty>
  }
  return (
    <Empty title="No agent is known yet">
      Agents appear here when this node meets other nodes. The page <Link to="/network">Network</Link> shows its peers.
      You can also <Link to="/agents/new">add an agent</Link> yourself.
    </Empty>
  )
}
