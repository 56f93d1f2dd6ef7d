import { sellerUrl } from '../buying/web/seller-url.ts'
import type { Config } from '../config/config.ts'
import { ConfigError } from '../config/config-error.ts'
import type { Secrets } from '../config/secrets.ts'
import { createGuardedRequest } from '../lib/guarded-request.ts'
import { MarketError } from '../listings/market-error.ts'
import { type SourceSetting, sourceName } from '../schema/source-setting.ts'
import type { Search } from '../search/search.ts'
import type { PurchaseRules } from '../sources/probe.ts'
import { type ConfiguredSource, createSources, type Sources } from '../sources/sources.ts'
import type { Measures } from '../trust/measures.ts'
import type { Foundation } from './foundation.ts'
import type { Listings } from './market.ts'

type NodeSourcesDeps = Pick<Foundation, 'clock' | 'asset'> & {
  listings: Pick<Listings, 'catalog'>
  search: Pick<Search, 'bearing'>
  measures: Pick<Measures, 'share' | 'stats'>
  publicUrl(): string | undefined
}

/** The catalogs of config.yaml, beside the market. @throws ConfigError for a key that is not set */
export function createNodeSources(config: Config, secrets: Secrets, deps: NodeSourcesDeps): Sources {
  const { catalog } = deps.listings
  return createSources(configuredSources(config, secrets), {
    ...{ clock: deps.clock, asset: deps.asset },
    outside: createGuardedRequest({ publicOnly: true }),
    anywhere: createGuardedRequest({ publicOnly: false }),
    purchases: purchaseRules(config.buyer.privateOrigins),
    ownUrls: () => [config.public.url, config.publicUrl, deps.publicUrl()].flatMap((url) => url ?? []),
    isListed: (id) => catalog.resolve(id) !== undefined,
    bearing: deps.search.bearing,
    measured(url) {
      // The agent of an order at a URL is that URL without its query.
      const { origin, pathname } = new URL(url)
      const known = deps.measures.share(origin + pathname)
      return known && { share: known.share, stats: deps.measures.stats(origin + pathname) }
    },
  })
}

/** @throws ConfigError for a key that is not set */
export function configuredSources(
  { sources }: Pick<Config, 'sources'>,
  secrets: Pick<Secrets, 'env'>,
): ConfiguredSource[] {
  const refusals: string[] = []
  const configured = (sources ?? []).map((setting): ConfiguredSource => {
    const headers = headersOf(setting, secrets, refusals)
    return { name: sourceName(setting), url: setting.url, headers, allowPrivate: setting.allow_private === 'true' }
  })
  if (refusals.length > 0) throw new ConfigError(refusals)
  return configured
}

/** By the rule of purchases: one rule says what is shown as buyable, and what is bought. */
function purchaseRules(origins: readonly string[]): PurchaseRules {
  return {
    refusalOf(url) {
      try {
        sellerUrl(url, origins)
        return undefined
      } catch (error) {
        if (error instanceof MarketError) return error.message
        throw error
      }
    },
    isOwn: (url) => origins.includes(new URL(url).origin),
  }
}

function headersOf(setting: SourceSetting, secrets: Pick<Secrets, 'env'>, refusals: string[]): Record<string, string> {
  const headers: Record<string, string> = {}
  const { token_env: token, headers_env: named = [] } = setting
  const wanted = named.map((text) => [
    text.slice(0, text.indexOf('=')).toLowerCase(),
    text.slice(text.indexOf('=') + 1),
    '',
  ])
  if (token !== undefined) wanted.push(['authorization', token, 'Bearer '])
  for (const [header, variable, before] of wanted as [string, string, string][]) {
    const value = secrets.env(variable)
    if (value === undefined) refusals.push(`sources: ${variable} is not set, or is a secret of this node`)
    else if (!/^[\x20-\x7e]{1,4096}$/.test(value)) refusals.push(`sources: ${variable} holds no text for a header`)
    else headers[header] = before + value
  }
  return headers
}
