import { isIP } from 'node:net'
import { isAbsolute } from 'node:path'
import * as z from 'zod'
import { bareHost } from '../lib/bare-host.ts'
import { parsePrice } from '../schema/amount.ts'
import { type Hex, networks } from '../schema/primitives.ts'

/**
 * The kinds of values of settings, each read from text: a flag, the environment or config.yaml.
 *
 * Every refusal is a phrase that follows "expected", so that the source and the value can precede it.
 */

/** The order of secp256k1's group: a private key is greater than 0 and less than this. */
const CURVE_ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
const LIST_LENGTH_MAX = 64
const TOKEN_LENGTH_MIN = 16

/** A value read from text. `parse` returns undefined for text that does not fit. */
function fromText<T>(expected: string, parse: (text: string) => T | undefined) {
  return z.string().transform((text, context): T => {
    const value = text.length > 8192 ? undefined : parse(text.trim())
    if (value !== undefined) return value
    context.addIssue({ code: 'custom', message: expected })
    return z.NEVER
  })
}

/** A list written with commas (a flag or a variable) or as a YAML sequence. Duplicates are dropped. */
function listOf(expected: string, parse: (text: string) => string | undefined) {
  return z.union([z.string(), z.array(z.string())]).transform((given, context): string[] => {
    const texts = (typeof given === 'string' ? [given] : given)
      .flatMap((text) => text.split(','))
      .map((text) => text.trim())
      .filter((text) => text !== '')
    const values = new Set<string>()
    for (const text of texts) {
      const value = parse(text)
      if (value === undefined) context.addIssue({ code: 'custom', message: expected, params: { part: text } })
      else values.add(value)
    }
    if (values.size > LIST_LENGTH_MAX) {
      context.addIssue({ code: 'custom', message: `at most ${LIST_LENGTH_MAX} entries`, params: { part: 'the list' } })
    }
    return [...values]
  })
}

export const PathText = fromText('a path', (text) =>
  text !== '' && !text.includes('\0') && text.length <= 4096 ? text : undefined,
)

/** A node may run in any directory. */
export const AbsolutePathText = fromText('an absolute path such as /etc/stoa/file.pem', (text) =>
  isAbsolute(text) && !text.includes('\0') && text.length <= 4096 ? text : undefined,
)

/** The name that a node gives itself. People read it beside the peer id, and only the peer id proves an identity. */
export const NodeNameText = fromText('a name of 1 to 40 letters, digits, spaces and the characters . _ -', (text) => {
  const name = text.trim()
  return /^[\p{L}\p{N}][\p{L}\p{N} ._-]{0,39}$/u.test(name) ? name : undefined
})

export const NetworkText = fromText(`one of ${networks.join(' (test network), ')} (real money)`, (text) =>
  networks.find((network) => network === text),
)

export const PortText = fromText('a port, 0 to 65535 (0 means any free port)', (text) => wholeNumber(text, 65_535))

export function countText(max: number) {
  return fromText(`a whole number from 1 to ${max}`, (text) => wholeNumber(text, max) || undefined)
}

/** Bounds of the contract of payment channels. */
export const WithdrawDelayText = fromText('seconds from 900 to 2592000', (text) => {
  const seconds = wholeNumber(text, 2_592_000)
  return seconds !== undefined && seconds >= 900 ? seconds : undefined
})

export const SwitchText = fromText('true or false', (text) =>
  /^(true|yes|on|1)$/i.test(text) ? true : /^(false|no|off|0)$/i.test(text) ? false : undefined,
)

export const ChannelsText = fromText('off or auto', (text) => (['off', 'auto'] as const).find((mode) => mode === text))

export const BuyerChannelsText = fromText('off, auto or always', (text) =>
  (['off', 'auto', 'always'] as const).find((mode) => mode === text),
)

export const UrlText = fromText('an http:// or https:// URL without user name or password', (text) => {
  const url = parseUrl(text)
  return url !== undefined && url.username === '' && url.password === '' ? text : undefined
})

/** Callers append paths to it. */
export const PublicUrlText = fromText(
  'an http:// or https:// URL without user name, password, ? or #, such as https://node.example',
  (text) => {
    const url = parseUrl(text)
    const isPlain = url !== undefined && url.username === '' && url.password === '' && !/[?#]/.test(text)
    return isPlain ? url.href.replace(/\/+$/, '') : undefined
  },
)

/** Further URLs after the first, in order. */
export const UrlList = listOf('http:// or https:// URLs without user name or password', (text) => {
  const parsed = UrlText.safeParse(text)
  return parsed.success ? parsed.data : undefined
})

/** Headers whose values are in variables: `X-Api-Key=FACILITATOR_KEY`. */
export const HeaderList = listOf('headers as Name=VARIABLE, such as X-Api-Key=FACILITATOR_KEY', (text) =>
  /^[A-Za-z][A-Za-z0-9-]{0,63}=[A-Z][A-Z0-9_]{0,63}$/.test(text) ? text : undefined,
)

/** May hold a user name and password, as RPC providers issue them. */
export const RpcUrlText = fromText('an http:// or https:// URL, such as http://127.0.0.1:8545', (text) =>
  parseUrl(text) === undefined ? undefined : text,
)

/** USDC as decimal text, in atomic units in memory. */
export const UsdcText = fromText(
  'an amount in USDC such as 0.05, with at most 6 decimals, from 0 to 1000000',
  (text) => {
    try {
      return parsePrice(text)
    } catch {
      return undefined
    }
  },
)

export const PrivateKeyText = fromText(
  'a secp256k1 private key: 64 hex digits, with or without 0x, above 0 and below the order of the curve',
  (text): Hex | undefined => {
    const digits = /^(?:0[xX])?([0-9a-fA-F]{64})$/.exec(text)?.[1]?.toLowerCase()
    if (digits === undefined) return undefined
    const scalar = BigInt(`0x${digits}`)
    return scalar > 0n && scalar < CURVE_ORDER ? `0x${digits}` : undefined
  },
)

/** A value for `Authorization: Bearer` that is too long to guess. */
export const TokenText = fromText(
  `at least ${TOKEN_LENGTH_MIN} letters, digits or characters of -._~+/=, such as the output of: openssl rand -hex 32`,
  (text) => (text.length >= TOKEN_LENGTH_MIN && /^[A-Za-z0-9._~+/=-]{1,512}$/.test(text) ? text : undefined),
)

/** A provider's key goes into an HTTP header: printable, one line. */
export const ApiKeyText = fromText('a key without spaces or control characters', (text) =>
  /^[\x21-\x7e]{1,1024}$/.test(text) ? text : undefined,
)

export const HostText = fromText('a host name or an IP address, such as 127.0.0.1 (without a port)', parseHost)

export const HostList = listOf('host names, such as node.example.org, without a port', parseHost)

export const IpList = listOf('IP addresses of this machine, such as 0.0.0.0,::', (text) =>
  isIP(text) === 0 ? undefined : text,
)

export const NetworkList = listOf('IP addresses or networks, such as 127.0.0.1 or 10.0.0.0/8', (text) => {
  const [address = '', prefix, ...more] = text.split('/')
  const bits = isIP(address) === 6 ? 128 : 32
  const isPrefix = prefix === undefined || (wholeNumber(prefix, bits) ?? 0) > 0
  return isIP(address) !== 0 && isPrefix && more.length === 0 ? text : undefined
})

/** Checks the shape only: libp2p interprets the parts. */
export const AnnounceList = listOf('a multiaddr such as /ip4/203.0.113.7/tcp/4001', (text) =>
  isMultiaddr(text) ? text : undefined,
)

/** A peer id, or a dnsaddr name alone, whose TXT records name the peers. */
const BOOTSTRAP_END = /\/(?:p2p|ipfs)\/[1-9A-HJ-NP-Za-km-z]{40,64}$|^\/dnsaddr\/[^/]+$/

export const BootstrapList = listOf(
  'a multiaddr that ends in the peer id, such as /ip4/203.0.113.7/tcp/4001/p2p/12D3KooW…, or /dnsaddr/<name>',
  (text) => (isMultiaddr(text) && BOOTSTRAP_END.test(text) ? text : undefined),
)

/** Refuses `*`, because these origins may spend (D16). */
export const OriginList = listOf(
  'origins such as https://app.example.org, without a path; * is not allowed',
  (text) => {
    const url = parseUrl(text)
    return url !== undefined && url.pathname === '/' && !/[?#@]|\/$/.test(text) ? url.origin : undefined
  },
)

/** Sellers by peer id or DID, agents by id. */
export const PartyList = listOf('a peer id, a DID or the id of an agent', (text) =>
  /^[A-Za-z0-9:._-]{1,256}$/.test(text) ? text : undefined,
)

export const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const
export const LogLevelText = fromText(`one of ${logLevels.join(', ')}`, (text) =>
  logLevels.find((level) => level === text),
)

function wholeNumber(text: string, max: number): number | undefined {
  return /^(0|[1-9][0-9]{0,8})$/.test(text) && Number(text) <= max ? Number(text) : undefined
}

function parseUrl(text: string): URL | undefined {
  const url = /^https?:\/\/[^/\s\\][^\s\\]*$/i.test(text) ? URL.parse(text) : null
  return url !== null && url.hostname !== '' ? url : undefined
}

function parseHost(text: string): string | undefined {
  const host = bareHost(text)
  if (isIP(host) !== 0) return host
  const labels = /^(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*$/
  return host.length <= 253 && labels.test(host) && !/^[0-9.]+$/.test(host) ? host.toLowerCase() : undefined
}

function isMultiaddr(text: string): boolean {
  const match = /^\/(ip4|ip6|dns|dns4|dns6|dnsaddr)\/([^/\s]+)(?:\/(tcp|udp)\/([0-9]+))?((?:\/[^/\s]+)*)$/.exec(text)
  if (match === null || text.length > 512) return false
  const [, kind, host = '', , port] = match
  if (kind === 'ip4' && isIP(host) !== 4) return false
  if (kind === 'ip6' && isIP(host) !== 6) return false
  if (kind !== 'dnsaddr' && port === undefined) return false
  return port === undefined || (wholeNumber(port, 65_535) ?? 0) > 0
}
