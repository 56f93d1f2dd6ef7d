import { createHash } from 'node:crypto'
import { isIP } from 'node:net'
import { bareHost } from '../lib/bare-host.ts'
import type { UnixMs } from '../lib/clock.ts'
import { isPublicAddress } from '../lib/public-address.ts'
import type { Asset } from '../payments/assets.ts'
import { cleanText, countOf, fieldOf } from './foreign.ts'
import { type Choice, choosePayable } from './payable.ts'

/** A resource as a catalog has it, read and bounded. Nothing in it is signed. */
export type CatalogEntry = {
  id: string
  type: 'http' | 'mcp'
  method: string
  url: string
  tool: string | undefined
  name: string | undefined
  description: string | undefined
  tags: readonly string[]
  listed: Choice
  lastUpdated: UnixMs | undefined
  payers: number | undefined
  calls: number | undefined
}

const URL_LENGTH_MAX = 2048
const NAME_LENGTH = 80
const DESCRIPTION_LENGTH = 300
const TAGS = 5
const TAG_LENGTH = 32
const methods = new Set(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD'])
/** Names of networks without public names. */
const localName = /(?:^|\.)(?:localhost|local|internal|lan|home|corp|intranet|test|invalid|onion)$/

/**
 * Reads an item of a catalog: `items` or `resources`, of x402 v1 or v2.
 *
 * @param isPrivateAllowed the operator allows addresses of the own network to this catalog
 * @returns undefined for an item without a URL that this node would ask
 */
export function readItem(item: unknown, own: Asset, isPrivateAllowed: boolean): CatalogEntry | undefined {
  const resource = fieldOf(item, 'resource')
  const url = resourceUrl(typeof resource === 'string' ? resource : fieldOf(resource, 'url'), isPrivateAllowed)
  if (url === undefined) return undefined
  const accepts = fieldOf(item, 'accepts')
  const first = Array.isArray(accepts) ? (accepts as unknown[])[0] : undefined
  const input = inputOf(item, first)
  const type = fieldOf(item, 'type') === 'mcp' || fieldOf(input, 'type') === 'mcp' ? 'mcp' : 'http'
  const method = type === 'mcp' ? 'POST' : methodOf(input)
  const tool = type === 'mcp' ? shortText(fieldOf(input, 'toolName') ?? fieldOf(input, 'tool'), NAME_LENGTH) : undefined
  const said = (name: string) =>
    fieldOf(item, name) ?? fieldOf(resource, name) ?? fieldOf(fieldOf(item, 'metadata'), name)
  const quality = fieldOf(item, 'quality')
  return {
    ...{ id: entryId(method, url, tool), type, method, url, tool },
    name: shortText(said('serviceName') ?? said('name'), NAME_LENGTH),
    description: shortText(said('description') ?? fieldOf(first, 'description'), DESCRIPTION_LENGTH),
    tags: tagsOf(said('tags')),
    listed: choosePayable(accepts, own),
    lastUpdated: timeOf(fieldOf(item, 'lastUpdated')),
    payers: countOf(fieldOf(quality, 'l30DaysUniquePayers')),
    calls: countOf(fieldOf(quality, 'l30DaysTotalCalls')),
  }
}

function entryId(method: string, url: string, tool?: string): string {
  const hash = createHash('sha256').update(JSON.stringify([method, url, tool ?? null]))
  return `url_${hash.digest('hex').slice(0, 40)}`
}

/** The URL in its only spelling, or undefined if this node would not ask it. @internal Exported for its test. */
export function resourceUrl(given: unknown, isPrivateAllowed: boolean): string | undefined {
  const url = typeof given === 'string' && given.length <= URL_LENGTH_MAX ? URL.parse(given) : null
  if (url === null || url.username !== '' || url.password !== '' || url.hash !== '') return undefined
  if (url.href.length > URL_LENGTH_MAX) return undefined
  if (isPrivateAllowed) return /^https?:$/.test(url.protocol) ? url.href : undefined
  const host = bareHost(url.hostname).replace(/\.+$/, '')
  const isNamed = host.includes('.') && !localName.test(host)
  if (isIP(host) === 0 ? !isNamed : !isPublicAddress(host)) return undefined
  // Ports below 1024 belong to services that a request must not be able to reach, such as mail.
  const isOddPort = url.port !== '' && Number(url.port) < 1024
  return url.protocol === 'https:' && !isOddPort ? url.href : undefined
}

/** v2 has the request in an extension, v1 in the schema of the first price. */
function inputOf(item: unknown, first: unknown): unknown {
  const bazaar = fieldOf(fieldOf(item, 'extensions'), 'bazaar')
  return fieldOf(fieldOf(bazaar, 'info'), 'input') ?? fieldOf(fieldOf(first, 'outputSchema'), 'input')
}

function methodOf(input: unknown): string {
  const given = fieldOf(input, 'method')
  const method = typeof given === 'string' ? given.slice(0, 16).toUpperCase() : 'GET'
  return methods.has(method) ? method : 'GET'
}

function shortText(value: unknown, lengthMax: number): string | undefined {
  return typeof value === 'string' ? cleanText(value, lengthMax) || undefined : undefined
}

function tagsOf(value: unknown): string[] {
  if (!Array.isArray(value)) return []
  return [...new Set(value.slice(0, TAGS).flatMap((tag) => shortText(tag, TAG_LENGTH) ?? []))]
}

/** Catalogs write the time as text, or as seconds or milliseconds. */
function timeOf(value: unknown): UnixMs | undefined {
  const given = typeof value === 'string' ? Date.parse(value.slice(0, 40)) : value
  if (typeof given !== 'number' || !Number.isFinite(given) || given <= 0) return undefined
  const ms = given < 1e11 ? given * 1000 : given
  // Beyond this, a Date is invalid.
  return ms < 8.64e15 ? Math.floor(ms) : undefined
}
