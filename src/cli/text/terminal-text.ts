import { stripVTControlCharacters, styleText } from 'node:util'
import type { Environment } from '../../config/env.ts'
import { usdc } from '../../schema/amount.ts'
import type { Pricing } from '../../schema/pricing.ts'
import type { Output } from '../io.ts'

/**
 * Makes a peer's text safe for a terminal (T10). Replaces control characters and bidirectional controls, so that no
 * listing or result can repaint the screen, set the window title or reverse a price.
 */
export function printable(text: string): string {
  return text.replaceAll('\r\n', '\n').replace(/(?![\n\t])[\p{Cc}\p{Bidi_Control}]/gu, '\ufffd')
}

const ESCAPE = '\u001b'
const color = new RegExp(`(${ESCAPE}\\[[0-9;]*m)`)
const otherSequence = new RegExp(`${ESCAPE}\\[[0-9;?]*[A-Za-z]`, 'g')

/** Keeps our color sequences and removes every other control sequence. Tabs become spaces. */
export function onlyColors(text: string): string {
  return text
    .replaceAll('\t', '  ')
    .split(color)
    .map((part, index) => (index % 2 === 1 ? part : printable(part.replace(otherSequence, ''))))
    .join('')
}

/** Safe text on one line, cut at `lengthMax` characters. */
export function printableLine(text: string, lengthMax = 200): string {
  const characters = [...printable(text).replace(/\s+/g, ' ').trim()]
  return characters.length <= lengthMax ? characters.join('') : `${characters.slice(0, lengthMax - 1).join('')}…`
}

/** `0.01 USDC`, or `free`. */
export function priceText(atomic: bigint): string {
  return atomic === 0n ? 'free' : usdc(atomic)
}

/** The price of an agent in few words. A metered agent costs that much at most. */
export function agentPriceText({ price, pricing }: { price: bigint; pricing?: Pricing | undefined }): string {
  return pricing === undefined ? priceText(price) : `up to ${usdc(price)}`
}

export function columns(rows: readonly (readonly string[])[], { indent = 0, gap = 2 } = {}): string[] {
  const widths: number[] = []
  for (const row of rows) {
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, widthOf(cell))
  }
  const pad = (cell: string, column: number) =>
    cell + ' '.repeat(Math.max(0, (widths[column] ?? 0) - widthOf(cell) + gap))
  return rows.map((row) => `${' '.repeat(indent)}${row.map(pad).join('')}`.trimEnd())
}

export type Style = {
  bold(text: string): string
  dim(text: string): string
  red(text: string): string
  green(text: string): string
  yellow(text: string): string
}

/** Colors for one output. NO_COLOR overrides FORCE_COLOR, which overrides the terminal check. */
export function styleOf(output: Output, environment: Environment): Style {
  const on = hasColor(output, environment)
  const paint = (format: 'bold' | 'dim' | 'red' | 'green' | 'yellow') => (text: string) =>
    on && text !== '' ? styleText(format, text, { validateStream: false }) : text
  return { bold: paint('bold'), dim: paint('dim'), red: paint('red'), green: paint('green'), yellow: paint('yellow') }
}

function hasColor(output: Output, environment: Environment): boolean {
  if ((environment.NO_COLOR ?? '') !== '') return false
  const forced = environment.FORCE_COLOR ?? ''
  if (forced !== '') return forced !== '0' && forced !== 'false'
  return output.isTty && environment.TERM !== 'dumb'
}

function widthOf(cell: string): number {
  return [...stripVTControlCharacters(cell)].length
}
