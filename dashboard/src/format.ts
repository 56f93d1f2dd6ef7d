/**
 * Text for people. Amounts stay text or bigint: money is never a float.
 *
 * All pages write amounts by one rule: grouped thousands, at least two decimals and otherwise all of them, then the
 * unit. A price of zero is `free`, a sum of zero is `0.00 USDC`, an unknown amount is `–`. `+` marks money to this node
 * and `−` marks money from this node. Figures and columns name the unit once, beside the number or in the heading.
 */

/** `Wait a minute` from `wait a minute`. */
export function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`
}

/** The text with a full stop, if it has no end of its own. */
export function ended(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`
}

/** The number alone: `1234567.5` → `1,234,567.50`. */
export function money(decimal: string | number | null | undefined): string {
  if (decimal === null || decimal === undefined) return '–'
  const text = typeof decimal === 'number' ? plain(decimal) : decimal
  const match = /^(-?)(\d+)(?:\.(\d*))?$/.exec(text)
  if (match === null) return text
  const [, sign = '', whole = '', fraction = ''] = match
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ',')
  return `${sign}${grouped}.${fraction.replace(/0+$/, '').padEnd(2, '0')}`
}

/** `0.05 USDC`. */
export function amount(decimal: string | number | null | undefined, unit = 'USDC'): string {
  const text = money(decimal)
  return text === '–' ? text : `${text} ${unit}`
}

/** `+0.05 USDC` for money to this node; `−0.05 USDC` for money from this node. */
export function signed(direction: 'in' | 'out', decimal: string): string {
  return `${direction === 'in' ? '+' : '−'}${amount(decimal)}`
}

/** Amounts of one column. All get as many decimals as the longest amount, so that the decimal points align. */
export function moneyColumn(decimals: readonly string[]): (decimal: string) => string {
  const shown = decimals.map(money)
  const places = Math.max(2, ...shown.map((text) => text.length - text.lastIndexOf('.') - 1))
  return (decimal) => {
    const text = money(decimal)
    const point = text.lastIndexOf('.')
    return point < 0 ? text : text.padEnd(point + 1 + places, '0')
  }
}

/** A number of the API as decimal text: prices have 6 decimals at most, and JSON writes small ones as `1e-7`. */
export function plain(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toFixed(6).replace(/0+$/, '')
}

export function price(value: number | string): string {
  return Number(value) === 0 ? 'free' : amount(value)
}

type Priced = { price: number | string; pricing?: object | undefined }

/** The price of an agent. A metered agent costs that much at most. */
export function agentPrice({ price: most, pricing }: Priced): string {
  return pricing === undefined ? price(most) : `up to ${amount(most)}`
}

/** What a metered agent charges for, in the order in which it is shown. */
const rates = [
  ['per_call', 'a call'],
  ['per_1k_input_tokens', 'for 1000 tokens read'],
  ['per_1k_output_tokens', 'for 1000 tokens written'],
  ['per_second', 'a second'],
] as const

/** Prices by use: `0.0005 USDC for 1000 tokens read + 0.002 USDC for 1000 tokens written`. */
export function ratesText(pricing: { [name in (typeof rates)[number][0]]?: number | string | undefined }): string {
  return rates
    .flatMap(([name, of]) => (pricing[name] === undefined ? [] : [`${amount(pricing[name])} ${of}`]))
    .join(' + ')
}

/** ETH has 18 decimals. We show six and truncate the rest. */
export function ether(decimal: string): string {
  const [whole = '0', fraction = ''] = decimal.split('.')
  const shown = money(`${whole}.${fraction.slice(0, 6)}`)
  return Number(shown.replaceAll(',', '')) === 0 && Number(decimal) > 0 ? '< 0.000001 ETH' : `${shown} ETH`
}

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : value.toLocaleString('en-GB')
}

export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return '–'
  if (ms < 1) return '< 1 ms'
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`
  return span(ms / 1000)
}

/** Seconds as the two largest units: `3 d 4 h`. */
export function span(seconds: number): string {
  const units: [string, number][] = [
    ['d', 86_400],
    ['h', 3_600],
    ['min', 60],
    ['s', 1],
  ]
  const first = units.findIndex(([, size]) => seconds >= size)
  if (first < 0) return '0 s'
  let rest = Math.floor(seconds)
  const parts: string[] = []
  for (const [name, size] of units.slice(first, first + 2)) {
    const whole = Math.floor(rest / size)
    if (whole > 0) parts.push(`${whole} ${name}`)
    rest -= whole * size
  }
  return parts.join(' ')
}

export function percent(share: number | null | undefined): string {
  return share === null || share === undefined ? '–' : `${Math.round(share * 1000) / 10} %`
}

export function ago(iso: string, now: number): string {
  const seconds = (now - Date.parse(iso)) / 1000
  if (Number.isNaN(seconds)) return iso
  if (Math.abs(seconds) < 5) return 'now'
  const text = span(Math.abs(seconds)).split(' ').slice(0, 2).join(' ')
  return seconds > 0 ? `${text} ago` : `in ${text}`
}

export function moment(iso: string): string {
  const date = new Date(iso)
  if (Number.isNaN(date.getTime())) return iso
  const two = (value: number) => String(value).padStart(2, '0')
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
}

/** Shortens an identifier to its two ends. */
export function short(id: string, ends = 6): string {
  return id.length <= ends * 2 + 1 ? id : `${id.slice(0, ends)}…${id.slice(-ends)}`
}

const networkNames: Record<string, string> = { 'eip155:84532': 'Base Sepolia', 'eip155:8453': 'Base' }

export function networkName(network: string): string {
  return networkNames[network] ?? network
}

/**
 * The page of a public explorer for a transaction. A local chain has the same chain id, so the page may not exist
 * there.
 */
export function explorerUrl(network: string, txHash: string): string | undefined {
  if (network === 'eip155:8453') return `https://basescan.org/tx/${txHash}`
  if (network === 'eip155:84532') return `https://sepolia.basescan.org/tx/${txHash}`
  return undefined
}

/** True if decimal text is an amount that the API accepts: at most 6 decimals. */
export function isAmount(text: string): boolean {
  return /^(0|[1-9]\d{0,6})(\.\d{1,6})?$/.test(text.trim())
}

type Units = {
  input_tokens?: number | undefined
  output_tokens?: number | undefined
  milliseconds?: number | undefined
}

/** What a call of a metered agent has used: `4 tokens read, 10 written, 1.2 s`. */
export function unitsText({ input_tokens: read, output_tokens: written, milliseconds }: Units): string {
  return [
    ...(read === undefined ? [] : [`${count(read)} tokens read`]),
    ...(written === undefined ? [] : [`${count(written)} ${read === undefined ? 'tokens ' : ''}written`]),
    ...(milliseconds === undefined ? [] : [`${milliseconds / 1000} s`]),
  ].join(', ')
}
