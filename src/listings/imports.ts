import { agentId as localIdOf } from '../agents/agent-id.ts'
import { type Clock, isoTime } from '../lib/clock.ts'
import { foldText } from '../lib/text/fold.ts'
import { didOfPeer } from '../p2p/did.ts'
import { peerAt } from '../p2p/multiaddrs.ts'
import { sameAddress } from '../payments/assets.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { StreamPeer } from '../protocols/streams.ts'
import { formatPrice } from '../schema/amount.ts'
import { type ImportAgent, ImportedListing } from '../schema/import.ts'
import { NAME_LENGTH_MAX } from '../schema/limits.ts'
import type { Listing } from '../schema/listing.ts'
import type { PaymentRequirements } from '../schema/payment.ts'
import type { Hex, Network } from '../schema/primitives.ts'
import type { AgentQuery, AgentScope } from '../schema/search.ts'
import { X402_PROTOCOL } from '../schema/x402.ts'
import type { ImportStore } from '../store/imports.ts'
import { MarketError } from './market-error.ts'

const IMPORTS_MAX = 1_000
const ED25519_PEER = '12D3KooW'
/** An imported listing does not expire, because the operator of this node vouches for it. */
const NEVER = '9999-12-31T23:59:59.000Z'

type ImportsDeps = { clock: Clock; store: ImportStore; network: Network; sellerId: string }
/** Asks a seller for the price of one run. Nothing is signed. */
type AskPrice = (seller: StreamPeer, resource: string) => Promise<PaymentRequirements>

/** Agents that the operator added by hand. They are local, unsigned and marked as imported. */
export interface Imports {
  /**
   * @param asset the asset of this node's network
   * @throws MarketError
   */
  add(request: ImportAgent, asset: Hex, ask: AskPrice): Promise<Listing>
  /** @throws MarketError UNKNOWN_AGENT */
  remove(id: string): Promise<Listing>
  all(): Listing[]
  get(id: string): Listing | undefined
  /** The name by which the seller knows an agent, also after the import was removed. */
  resourceOf(id: string): string | undefined
  /** Imported agents that match a search. */
  matching(query: AgentQuery, scope: AgentScope): Listing[]
}

export function createImports({ clock, store, network, sellerId }: ImportsDeps): Imports {
  const active = new Map<string, Listing>()
  /** New imports that are being stored. */
  const adding = new Set<string>()
  for (const { id, listing } of store.active()) active.set(id, shown(read(listing)))

  function shown(kept: ImportedListing): Listing {
    const price = BigInt(kept.price_atomic)
    return { ...kept, price, local: false, buyable: kept.network === network }
  }

  function checkRoom(id: string): void {
    if (active.has(id) || adding.has(id) || active.size + adding.size < IMPORTS_MAX) return
    throw new MarketError('IMPORT_REFUSED', `${IMPORTS_MAX} agents are imported: remove some first`)
  }

  function known(id: string): Listing {
    const listing = active.get(id)
    if (listing !== undefined) return listing
    throw new MarketError('UNKNOWN_AGENT', `no agent ${id} is imported here; see GET /imports`)
  }

  return {
    async add({ peer, agent_id: named, price, name, description, pay_to }, asset, ask) {
      const seller = sellerOf(peer)
      const agent_id = idAtSeller(named, seller)
      if (seller.peerId === sellerId) {
        throw new MarketError('IMPORT_REFUSED', 'this peer is this node itself; its own agents are listed already')
      }
      const id = localIdOf(seller.peerId, agent_id)
      checkRoom(id)
      const payTo = pay_to ?? (price === 0n ? `0x${'0'.repeat(40)}` : await payToOf(seller, agent_id, price))
      async function payToOf(from: StreamPeer, resource: string, listed: bigint): Promise<Hex> {
        const asked = await ask(from, resource).catch(asNotPaid)
        const other = differs(asked, { network, asset, amount: listed })
        if (other !== undefined) throw new MarketError('LISTING_MISMATCH', `${other}: nothing was imported`)
        return asked.payTo as Hex
      }
      const now = isoTime(clock.now())
      const kept: ImportedListing = {
        id,
        name: name ?? agent_id.slice(0, NAME_LENGTH_MAX),
        description: description ?? 'Imported by the operator of this node. No listing of its seller vouches for it.',
        price_atomic: price.toString(),
        tags: [],
        protocols: [X402_PROTOCOL],
        network,
        asset,
        pay_to: payTo as Hex,
        seller_id: seller.peerId,
        seller_did: didOfPeer(seller.peerId),
        addrs: [...seller.addrs],
        version: clock.now(),
        updated_at: now,
        expires_at: NEVER,
        imported: { agent_id },
      }
      // The question to the seller took time, and others may have been added.
      checkRoom(id)
      if (!active.has(id)) adding.add(id)
      try {
        await store.put(id, JSON.stringify(kept), clock.now())
        active.set(id, shown(kept))
      } finally {
        adding.delete(id)
      }
      return known(id)
    },
    async remove(id) {
      const listing = known(id)
      await store.remove(id)
      active.delete(id)
      return listing
    },
    all: () => [...active.values()],
    get: (id) => active.get(id),
    resourceOf(id) {
      if (active.has(id)) return active.get(id)?.imported?.agent_id
      const removed = store.listing(id)
      return removed === undefined ? undefined : read(removed).imported.agent_id
    },
    matching(query, scope) {
      if (scope === 'local' || query.online !== undefined || (query.tags?.length ?? 0) > 0) return []
      const words = foldText(query.q ?? '')
        .split(' ')
        .filter((word) => word !== '')
      return [...active.values()].filter((listing) => {
        const text = foldText(`${listing.name} ${listing.description}`)
        return words.every((word) => text.includes(word)) && fits(listing, query)
      })
    },
  }
}

/** Asks a seller for the price of one run, until the signal aborts. */
type AskSeller = (seller: StreamPeer, resource: string, signal: AbortSignal) => Promise<PaymentRequirements>

/** The imports as the API changes them. */
export function importing(imports: Imports, asset: Hex, ask: AskSeller) {
  return {
    all: imports.all,
    remove: imports.remove,
    add: (request: ImportAgent, signal: AbortSignal) =>
      imports.add(request, asset, (seller, resource) => ask(seller, resource, signal)),
  }
}

function fits(listing: Listing, { max_price, free, protocol, seller_id, network }: AgentQuery): boolean {
  if (max_price !== undefined && listing.price > max_price) return false
  if (free !== undefined && free !== (listing.price === 0n)) return false
  if (protocol !== undefined && !listing.protocols.includes(protocol)) return false
  if (network !== undefined && network !== 'any' && network !== 'own' && network !== listing.network) return false
  return seller_id === undefined || seller_id === listing.seller_id
}

function read(listing: string): ImportedListing {
  return ImportedListing.parse(JSON.parse(listing))
}

/**
 * Removes the seller's peer id from the front of an agent's name. The original node also lists agents as `<its peer
 * id>/<id>`, but knows them only as `<id>`. Asked for the long form, it takes the payment and then finds no agent.
 */
function idAtSeller(named: string, { peerId }: StreamPeer): string {
  const prefix = `${peerId}/`
  return named.startsWith(prefix) && named !== prefix ? named.slice(prefix.length) : named
}

/** @throws MarketError */
function sellerOf(peer: string): StreamPeer {
  const seller = peerAt(peer)
  if (seller === undefined)
    throw new MarketError('IMPORT_REFUSED', 'peer must be a peer id or a multiaddr that ends in /p2p/<peer id>')
  if (seller.peerId.startsWith(ED25519_PEER)) return seller
  const why = `peer ${seller.peerId} has no Ed25519 key (12D3KooW…), as every seller here has`
  throw new MarketError('IMPORT_REFUSED', why)
}

/**
 * Explains an error in place of a price. If the agent is free, the seller runs it without a task, which fails. If the
 * seller does not know the agent, it answers with an error too.
 */
function asNotPaid(error: unknown): never {
  if (!(error instanceof PeerError) || !['EXECUTION_FAILED', 'INVALID_MESSAGE'].includes(error.code)) throw error
  const why = `the seller did not ask to be paid (${error.message}): check the id; a free agent has the price 0`
  throw new MarketError('LISTING_MISMATCH', `${why}; nothing was imported`, { cause: error })
}

/**
 * Describes how the price that the seller asks for differs from what the operator entered. Undefined if it does not
 * differ.
 */
function differs(
  asked: PaymentRequirements,
  named: { network: string; asset: string; amount: bigint },
): string | undefined {
  if (asked.network !== named.network)
    return `the seller is paid on ${asked.network}, this node pays on ${named.network}`
  if (!sameAddress(asked.asset, named.asset)) return `the seller is paid in ${asked.asset}, not in USDC`
  if (asked.amount === named.amount) return undefined
  const [price, expected] = [asked.amount, named.amount].map(formatPrice)
  return `the seller asks for ${price} USDC, not ${expected}`
}
