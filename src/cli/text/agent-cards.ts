import { isOnChannelsOnly, type Listing, type Ranking } from '../../schema/listing.ts'
import { networkText } from '../../schema/network-kind.ts'
import { type Pricing, pricingText } from '../../schema/pricing.ts'
import type { Context } from '../command.ts'
import { badge } from './badge.ts'
import { agentPriceText, columns, priceText, printableLine } from './terminal-text.ts'

/** Text for reading fits the smallest terminal. Text for copying, such as an address, is never cut. */
const WIDTH = 80
const NAME_LENGTH = 36
const ADDRESSES_MAX = 4

/** Prints listings: name and price first, then the seller and its addresses. */
export function showAgents(
  context: Context,
  listings: readonly Listing[],
  { none, hasMore }: { none: string; hasMore: boolean },
): void {
  const { bold, dim } = context.style.stdout
  if (listings.length === 0) {
    context.print(none)
    return
  }
  const [own] = listings.filter(({ buyable }) => buyable)
  const kind = own === undefined ? '' : `  ${badge(own.network, context.style.stdout)}`
  context.print(bold(`${listings.length} ${listings.length === 1 ? 'agent' : 'agents'}`) + kind)
  for (const listing of listings) {
    context.print()
    for (const line of card(listing, context)) context.print(line)
  }
  if (!hasMore) return
  context.print()
  context.print(dim('there are more agents: raise --limit, or use more words'))
}

function card(listing: Listing, { style }: Context): string[] {
  const { dim, yellow } = style.stdout
  const { look_alike_of: original } = listing
  return [
    headLine(listing, style.stdout),
    ...foreignLines(listing, style.stdout),
    ...(listing.imported === undefined ? [] : [yellow('  imported by hand: no signed listing confirms this agent')]),
    `  id      ${listing.id}`,
    `  seller  ${listing.local ? 'this node' : printableLine(listing.seller_id)}`,
    ...listing.addrs.slice(0, ADDRESSES_MAX).map((address) => `  at      ${printableLine(address)}`),
    ...(listing.pricing === undefined ? [] : priceLines(listing, listing.pricing)),
    ...standingLines(listing),
    `  ${dim(printableLine(listing.description, WIDTH - 2))}`,
    ...(original === undefined
      ? []
      : [
          yellow(`  beware  easily confused with “${printableLine(original.name, NAME_LENGTH)}” of another seller:`),
          yellow(`          ${printableLine(original.seller_id)}`),
        ]),
    ...(listing.ranking === undefined ? [] : reasonLines(listing.ranking).map(dim)),
  ]
}

/** Marks an agent that is sold on another network than this node's (D37). */
function foreignLines({ buyable, network }: Listing, style: Context['style']['stdout']): string[] {
  if (buyable) return []
  const why = `${networkText(network)}: this node pays on another network and cannot buy it`
  return [`  ${badge(network, style)}    ${style.yellow(why)}`]
}

/** `Echo  0.01 USDC  online, 12 ms  builtin/echo`, cut at the end. */
function headLine(listing: Listing, { bold, dim, green, yellow }: Context['style']['stdout']): string {
  const name = printableLine(listing.name, NAME_LENGTH)
  const price = agentPriceText(listing)
  const presence = presenceText(listing)
  const room = WIDTH - [name, price, presence].reduce((used, text) => used + [...text].length + 2, 0)
  const model = room < 8 ? '' : printableLine(listing.model ?? '', room)
  const dressed = [bold(name), green(price), listing.online === false ? yellow(presence) : presence, dim(model)]
  return dressed.filter((text) => text !== '').join('  ')
}

/** What a metered agent charges, and by which way it is paid. */
function priceLines(listing: Listing, pricing: Pricing): string[] {
  const only = isOnChannelsOnly(listing)
  const way = only ? 'on payment channels only' : `on a payment channel; ${priceText(listing.price)} paid by itself`
  return [`  costs   ${pricingText(pricing)}`, `          ${way}`]
}

function presenceText({ local, online, latency_ms }: Listing): string {
  if (local || online === undefined) return ''
  if (!online) return 'offline'
  return latency_ms === undefined ? 'online' : `online, ${Math.round(latency_ms)} ms`
}

/** What this node measured of an agent, and its rating on the chain. */
function standingLines({ stats, reputation }: Listing): string[] {
  const lines: string[] = []
  if (stats !== undefined && stats.calls > 0) {
    const { calls, success_rate, p50_ms, p95_ms, settled_volume } = stats
    const well = `${calls} ${calls === 1 ? 'call' : 'calls'}, ${Math.floor(100 * (success_rate ?? 0))} % succeeded`
    const time = p50_ms === null || p95_ms === null ? '' : `, ${durationText(p50_ms)} (95 %: ${durationText(p95_ms)})`
    lines.push(`  used    ${well}${time}, ${settled_volume} USDC settled`)
  }
  if (reputation !== undefined) {
    const { token_id, count, score } = reputation
    const said =
      score === null ? 'no ratings yet' : `${score} of 100 by ${count} ${count === 1 ? 'account' : 'accounts'}`
    lines.push(`  rated   ${printableLine(`${said} (token ${token_id})`)}`)
  }
  return lines
}

function durationText(ms: number): string {
  return ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`
}

function reasonLines({ score, reasons }: Ranking): string[] {
  const rows = reasons.map(({ signal, points, detail }) => [
    `${points < 0 ? '−' : '+'}${Math.abs(points).toFixed(3)}`,
    signal.replaceAll('_', ' '),
    printableLine(detail, WIDTH - 32),
  ])
  const [first = '', ...rest] = columns([[` ${score.toFixed(3)}`, 'total', ''], ...rows])
  return [`  why     ${first}`, ...rest.map((line) => `          ${line}`)]
}
