import { useState } from 'react'
import { call, queryText } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { CatalogEntry, CatalogSearch, CatalogSource } from '../api/types.ts'
import { duration, money, networkName, percent, sentence, short } from '../format.ts'
import { Badge, Section, type Tone } from './bits.tsx'
import { copyText } from './clipboard.ts'
import { Icon } from './icon.tsx'
import { Loading, Problem } from './states.tsx'
import type { FilterProps } from './typed.tsx'

/** Catalogs are asked when the user searches, and not again while the page is open. */
const ASKED_EVERY_MS = 10 * 60_000

/** What catalogs have for this search, apart from the agents of the market. Nothing if no catalog is configured. */
export function Catalogs({ get, change }: FilterProps) {
  const sources = useResource('sources', (signal) => call<CatalogSource[]>('/sources', { signal }), {
    everyMs: ASKED_EVERY_MS,
  })
  if (sources.data === undefined || sources.data.length === 0) return null
  const isOpen = get('catalogs') === 'true'
  const names = sources.data.map(({ name }) => name).join(', ')
  const toggle = (
    <button type="button" aria-expanded={isOpen} onClick={() => change({ catalogs: isOpen ? '' : 'true' })}>
      {isOpen ? 'Hide' : 'Search catalogs too'}
    </button>
  )
  return (
    <Section title="Catalogs" aside={toggle}>
      <p className="muted">{names}: resources that no seller has signed. They are not agents of the market.</p>
      {isOpen && <Entries q={get('q')} maxPrice={get('max_price')} />}
    </Section>
  )
}

function Entries({ q, maxPrice }: { q: string; maxPrice: string }) {
  const path = `/sources/entries${queryText({ q, max_price: maxPrice, probe: true })}`
  const found = useResource(path, (signal) => call<CatalogSearch>(path, { signal }), { everyMs: ASKED_EVERY_MS })
  if (found.data === undefined) {
    return found.error === undefined ? (
      <Loading what="Asking the catalogs" />
    ) : (
      <Problem error={found.error} retry={found.reload} />
    )
  }
  const { entries, sources } = found.data
  return (
    <>
      {sources.map(
        ({ name, ok, error = '' }) =>
          !ok && (
            <p key={name} className="catalog-note" role="status">
              {name} failed: {error}
            </p>
          ),
      )}
      {entries.length === 0 && <p className="muted">No entry fits.</p>}
      <ul className="catalog" aria-label="Entries of catalogs">
        {entries.map((entry) => (
          <Entry key={entry.id} entry={entry} />
        ))}
      </ul>
    </>
  )
}

const tones: Readonly<Record<CatalogEntry['state'], Tone>> = {
  live: 'good',
  unchecked: 'plain',
  changed: 'warn',
  unpayable: 'warn',
  dead: 'bad',
}

function Entry({ entry: given }: { entry: CatalogEntry }) {
  const [asked, setAsked] = useState<CatalogEntry>()
  const [error, setError] = useState<Error>()
  const entry = asked ?? given
  const { id, name, url, method, state, listed, expected, look_alike_of: alike } = entry
  const price = expected?.price ?? listed?.price
  async function ask() {
    try {
      setAsked(await call<CatalogEntry>(`/sources/entries/${id}/probe`, { method: 'POST' }))
    } catch (failure) {
      setError(failure as Error)
    }
  }
  return (
    <li>
      <p className="row-title">
        <Icon sign="network" />
        <span>{name ?? new URL(url).hostname}</span>
        <span className="tag">catalog: {entry.sources.join(', ')}</span>
        {alike !== undefined && <span className="tag warn">looks like the agent {alike.name}</span>}
        <Badge state={state} tone={tones[state]} />
        <strong>{price === undefined ? 'no price in USDC' : `${money(price)} USDC`}</strong>
        {expected !== undefined && (
          <button type="button" onClick={() => copyText(buyCommand(entry, expected), 'command that buys it')}>
            Copy command<span className="hidden"> that buys {name ?? url}</span>
          </button>
        )}
        {state === 'unchecked' && (
          <button type="button" onClick={ask}>
            Check<span className="hidden"> {name ?? url}</span>
          </button>
        )}
      </p>
      <p className="catalog-url">
        {method} {url}
      </p>
      {entry.description !== undefined && <p className="row-text">{entry.description}</p>}
      <p className="muted">{facts(entry).join(' · ')}</p>
      {entry.reason !== undefined && <p className="catalog-note">{sentence(entry.reason)}</p>}
      {error !== undefined && <p className="catalog-note">{error.message}</p>}
    </li>
  )
}

/** For a shell: a quote in a URL must not end the text, since a stranger wrote it. */
function buyCommand(
  { url, method }: CatalogEntry,
  { price, pay_to: payTo }: NonNullable<CatalogEntry['expected']>,
): string {
  const how = method === 'GET' ? '--method GET' : '--task "…"'
  return `stoa buy '${url.replaceAll("'", '%27')}' ${how} --max-price ${price} --pay-to ${payTo}`
}

function facts({ listed, expected, latency_ms: latency, stats, claims, last_updated: seen }: CatalogEntry): string[] {
  const { network, pay_to: payTo } = expected ?? listed ?? {}
  return [
    payTo !== undefined && network !== undefined && `paid to ${short(payTo)} on ${networkName(network)}`,
    latency !== undefined && `answers in ${duration(latency)}`,
    stats !== undefined && stats.calls > 0 && `used ${stats.calls} times, ${percent(stats.success_rate)} succeeded`,
    claims?.payers_30_days !== undefined && `the catalog counts ${claims.payers_30_days} payers`,
    seen !== undefined && `listed ${seen.slice(0, 10)}`,
  ].filter((text) => text !== false)
}
