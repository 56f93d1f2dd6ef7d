import { base58btc } from 'multiformats/bases/base58'
import { agentId } from '../../src/agents/agent-id.ts'
import { peerOfDid } from '../../src/p2p/did.ts'
import { assets } from '../../src/payments/assets.ts'
import { LISTING_TTL_MS, type ListingRecord } from '../../src/schema/listing.ts'

/** Words of agents' listings, the most common first, then made-up words, so that there are many rare words. */
const common =
  'a the and of to for your with in text agent any from on data summarise contract document translate review code write analysis report image research legal email answer search short long market price news python sql table language english german french spanish japanese chat support customer product science medical finance invoice tax audio video speech transcript meeting notes plan travel recipe music poem story game chess math proof test bug security audit chain token wallet swap risk score model train label extract classify cluster compare rank plot chart map weather sport health fitness diet law policy patent grant paper citation book chapter lesson quiz exam teacher student résumé job interview hiring salary team project task ticket log metric alert deploy server cloud network router sensor robot drone car train flight hotel house garden plant animal dog cat bird fish'.split(
    ' ',
  )
const syllables = 'ka ro mi ten sul ver do pra lin ex ba cor ti ur mo sen fla ge nu shi'.split(' ')

const SELLERS = 20_000
const RARE_WORDS = 30_000

export type Market = { records: ListingRecord[]; words: readonly string[] }

/** A market of this many listings. The same number gives the same market. */
export function createMarket(count: number, now: number): Market {
  const random = seeded(42)
  const words = [...common]
  while (words.length < RARE_WORDS) {
    const word = Array.from({ length: 2 + Math.floor(random() * 3) }, () => pick(syllables, random())).join('')
    words.push(word)
  }
  const sellers = Array.from({ length: Math.min(SELLERS, count) }, () => peerId(random))
  // Zipf: the n-th word is n times rarer than the first.
  const text = (length: number) =>
    Array.from({ length }, () => words[Math.floor(words.length ** random()) - 1]!).join(' ')
  const names = new Set<string>()
  const records = Array.from({ length: count }, (_, index) => {
    const seller_id = sellers[index % sellers.length]!
    let name = capital(text(2 + Math.floor(random() * 3)))
    while (names.has(name)) name += ` ${index}`
    names.add(name)
    const price_atomic = random() < 0.3 ? 0n : BigInt(Math.floor(10 ** (random() * 6)))
    const version = now - Math.floor(random() * LISTING_TTL_MS * 0.5)
    return {
      v: 1,
      id: agentId(seller_id, name),
      seller_id,
      state: 'active',
      version,
      updated_at: version,
      expires_at: version + LISTING_TTL_MS,
      name,
      description: `${capital(text(10 + Math.floor(random() * 40)))}.`,
      price_atomic,
      model: 'openai/gpt-5-mini',
      tags: [...new Set(text(3).split(' '))],
      protocols: ['/x402/libp2p/1.0.0', ...(price_atomic === 0n ? ['/node/marketplace/1.0.0'] : [])],
      network: 'eip155:84532',
      asset: assets['eip155:84532'].address,
      pay_to: '0x2222222222222222222222222222222222222222',
      addrs: [`/ip4/203.0.113.7/tcp/4001/p2p/${seller_id}`],
    } satisfies ListingRecord
  })
  return { records, words }
}

/** Random numbers from 0 to 1, the same in every run (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

function peerId(random: () => number): string {
  const key = Uint8Array.from({ length: 32 }, () => Math.floor(random() * 256))
  return peerOfDid(`did:peer:0${base58btc.encode(Uint8Array.of(0xed, 0x01, ...key))}`)
}

function pick<T>(values: readonly T[], chance: number): T {
  return values[Math.floor(chance * values.length)]!
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1)
}
