import { networkText } from '../../schema/network-kind.ts'
import type { SourceEntry, SourceResults, SourceTerms } from '../../schema/source.ts'
import type { Context } from '../command.ts'
import { printableLine } from './terminal-text.ts'

const WIDTH = 80
const NAME_LENGTH = 40

/** Prints what catalogs have, under a heading of its own: nobody may take an entry for a signed listing. */
export function showEntries(context: Context, { entries, sources }: SourceResults): void {
  const { bold, dim, yellow } = context.style.stdout
  context.print()
  const count = entries.length === 1 ? '1 entry of catalogs' : `${entries.length} entries of catalogs`
  context.print(bold(count) + dim('  no seller signed them'))
  if (sources.length === 0) context.print(dim('no catalog is configured: add one under sources in config.yaml'))
  for (const { name, ok, error = '', age_seconds: age } of sources) {
    const old = age === undefined ? '' : `; what it said ${Math.ceil(age / 60)} min ago is shown`
    if (!ok) context.print(yellow(printableLine(`${name} failed: ${error}${old}`, 300)))
  }
  for (const entry of entries) {
    context.print()
    for (const line of card(entry, context)) context.print(line)
  }
}

function card(entry: SourceEntry, { style }: Context): string[] {
  const { bold, dim, green, yellow } = style.stdout
  const { listed, expected, look_alike_of: alike } = entry
  const title = printableLine(entry.name ?? new URL(entry.url).hostname, NAME_LENGTH)
  const price = expected?.price ?? listed?.price
  const head = [
    'catalog',
    bold(title),
    price === undefined ? 'no price in USDC' : green(`${price} USDC`),
    stateText(entry),
  ]
  const { network, pay_to: payTo } = expected ?? listed ?? {}
  return [
    head.join('  '),
    `  url     ${entry.method} ${printableLine(entry.url, 2048)}`,
    `  from    ${entry.sources.join(', ')}`,
    ...(payTo === undefined
      ? []
      : [`  pays to ${printableLine(payTo, 64)} on ${printableLine(networkText(network ?? '?'), 60)}`]),
    ...(entry.last_updated === undefined ? [] : [`  seen    ${entry.last_updated} (as the catalog says)`]),
    ...standingLines(entry),
    ...(entry.description === undefined ? [] : [`  ${dim(printableLine(entry.description, WIDTH - 2))}`]),
    ...(expected === undefined ? [] : [`  buy     ${buyCommand(entry, expected)}`]),
    ...(entry.reason === undefined ? [] : [yellow(`  not buyable: ${printableLine(entry.reason, 200)}`)]),
    ...(alike === undefined
      ? []
      : [
          yellow(`  beware  easily confused with the agent “${printableLine(alike.name, NAME_LENGTH)}” of the market:`),
          yellow(`          ${alike.id}`),
        ]),
  ]
}

/** For a shell: a quote in a URL must not end the text, since a stranger wrote it. */
function buyCommand({ url, method }: SourceEntry, { price, pay_to: payTo }: SourceTerms): string {
  const how = method === 'GET' ? '--method GET' : '--task "…"'
  return `stoa buy '${printableLine(url, 2048).replaceAll("'", '%27')}' ${how} --max-price ${price} --pay-to ${payTo}`
}

function stateText({ state, latency_ms: latency }: SourceEntry): string {
  return state === 'live' && latency !== undefined ? `answers, ${latency} ms` : state
}

function standingLines({ stats, claims }: SourceEntry): string[] {
  const lines: string[] = []
  if (stats !== undefined && stats.calls > 0) {
    const { calls, success_rate, p50_ms } = stats
    const time = p50_ms === null ? '' : `, ${p50_ms} ms`
    lines.push(
      `  used    ${calls} ${calls === 1 ? 'call' : 'calls'}, ${Math.floor(100 * (success_rate ?? 0))} % succeeded${time}`,
    )
  }
  if (claims?.payers_30_days !== undefined) {
    lines.push(`  claims  ${claims.payers_30_days} payers in 30 days (as the catalog says)`)
  }
  return lines
}
