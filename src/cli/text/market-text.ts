import * as z from 'zod'
import type { UnixMs } from '../../lib/clock.ts'
import type { Book } from '../../schema/book.ts'
import { PAGE_ITEMS_MAX } from '../../schema/limits.ts'
import type { CallError, RecordedPayment } from '../../schema/order.ts'
import type { PaymentRecord } from '../../schema/payment-record.ts'
import { unitsText } from '../../schema/pricing.ts'
import { type Context, option } from '../command.ts'
import { CliError, exitCodeFor, exitCodes } from '../exit-code.ts'
import { columns, printable, printableLine } from './terminal-text.ts'

/** Characters of a table's last column in a file or a pipe, which have no width. */
const CELL_MAX = 400
const GAP = 2
/** How long one request waits for something to end. */
const WAIT_SECONDS = 30

const LimitText = z
  .string()
  .regex(/^[1-9][0-9]{0,2}$/, `a whole number from 1 to ${PAGE_ITEMS_MAX}`)
  .transform(Number)
  .refine((limit) => limit <= PAGE_ITEMS_MAX, `a whole number from 1 to ${PAGE_ITEMS_MAX}`)

/** Options of a list that comes in pages. */
export function pageOptions(what: string) {
  return {
    limit: option('--limit <n>', `how many ${what} to show (default: 50)`, LimitText),
    cursor: option('--cursor <cursor>', 'continue where the previous list ended', z.string()),
  } as const
}

export function oneOf<const T extends readonly [string, ...string[]]>(choices: T) {
  return z.enum(choices, { error: `one of ${choices.join(', ')}` })
}

/** Prints the items of a list: as JSON, as a table with a row for each, or `none` where there are none. */
export function printList<T>(
  context: Context,
  items: readonly T[],
  list: { none: string; headings: readonly string[]; cells(item: T): string[]; json?: unknown; wraps?: boolean },
): void {
  const { none, headings, cells, json = items } = list
  if (context.json) context.printJson(json)
  else context.print(items.length === 0 ? none : table(headings, items.map(cells), context, list))
}

/** Rows below their headings. The last column is cut at the width of the terminal, or goes on in the next line. */
export function table(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  { style, io }: Context,
  { wraps = false }: { wraps?: boolean } = {},
): string[] {
  const fixed = headings.length - 1
  const widths = headings.map((heading, column) =>
    Math.max(heading.length, ...rows.map((row) => [...(row[column] ?? '')].length)),
  )
  const used = widths.slice(0, fixed).reduce((sum, width) => sum + width + GAP, 0)
  const room = io.stdout.isTty ? Math.max(12, (io.stdout.columns ?? 80) - used) : CELL_MAX
  const fitted = rows.flatMap((row) => {
    const cell = row[fixed] ?? ''
    const [first = '', ...more] = wraps ? linesOf(cell, io.stdout.isTty ? room : Infinity) : [printableLine(cell, room)]
    return [[...row.slice(0, fixed), first], ...more.map((line) => [...row.slice(0, fixed).map(() => ''), line])]
  })
  const [head = '', ...lines] = columns([headings, ...fitted], { gap: GAP })
  return [style.stdout.bold(head), ...lines]
}

/** A word that is longer than a line stays whole. */
function linesOf(text: string, room: number): string[] {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const line = lines.at(-1)
    if (line !== undefined && line.length + 1 + word.length <= room) lines[lines.length - 1] = `${line} ${word}`
    else lines.push(word)
  }
  return lines
}

/** A payment for people: one line for each field that says something. */
export function paymentLines({ amount_atomic: _, amount, units, ...fields }: PaymentRecord): string[] {
  const shown = { ...fields, ...(units !== undefined && { units: unitsText(units) }) }
  const { payment_id, network, asset, ...rest } = shown
  const rows = Object.entries({ payment_id, network, asset, amount: `${amount} USDC`, ...rest }).flatMap(
    ([name, value]) =>
      value === undefined || value === null || value === ''
        ? []
        : [[name.replaceAll('_', ' '), printableLine(String(value))]],
  )
  return columns(rows, { gap: GAP })
}

/** `now`, `5 min`, `3 h`, `12 d`. */
export function age(at: string, now: UnixMs): string {
  const minutes = Math.floor((now - Date.parse(at)) / 60_000)
  if (minutes < 1) return 'now'
  if (minutes < 60) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} d`
}

/** `0.25 USDC, settled in 0x…`. */
export function paymentText(payment: RecordedPayment | undefined): string {
  if (payment === undefined) return 'nothing'
  const first = payment.settles_first === true ? '; this seller settles before the agent runs' : ''
  const used = payment.units === undefined ? '' : ` for ${unitsText(payment.units)}`
  const cut = payment.cut === true ? '; the output ends with what was paid for' : ''
  return printableLine(`${payment.amount} USDC${used}, ${settlementText(payment)}${cut}${first}`, 400)
}

/** `settled in 0x…`, or what else is known of it. */
export function settlementText({
  settlement,
  settlement_note,
  tx_hash,
  channel_id: channel,
}: Pick<RecordedPayment, 'settlement' | 'settlement_note' | 'tx_hash' | 'channel_id'>): string {
  const what = {
    settled: channel === undefined ? `settled in transaction ${tx_hash}` : `paid on channel ${channel}`,
    claimed: `the seller names transaction ${tx_hash}; the chain does not show it yet`,
    pending: 'settlement pending',
    reserved: `signed; the seller can still ${channel === undefined ? 'settle' : 'charge'} it`,
    released: 'not charged',
    voided: 'voided: not charged',
    failed: 'never settled',
  }[settlement]
  const note = settlement_note === undefined ? '' : ` (${settlement_note})`
  return `${what}${note}`
}

/** The content of an amount column: the amount and its book (D42). */
export function paidText(payment: RecordedPayment | undefined): string {
  return payment === undefined ? '' : `${payment.amount} ${bookText(payment.book)}`
}

/** `not charged`. */
export function bookText(book: Book): string {
  return book.replace('_', ' ')
}

/** Writes a result: unchanged for a program, with harmless characters for a terminal. */
export function writeOutput({ io }: Context, output: string): void {
  const text = io.stdout.isTty ? printable(output) : output
  io.stdout.write(text.endsWith('\n') ? text : `${text}\n`)
}

/** Writes a result that may be binary. A terminal shows only its readable part. */
export function writeResult(context: Context, result: { output: string; output_base64?: string | undefined }): void {
  const { output, output_base64 } = result
  const { stdout } = context.io
  if (output_base64 === undefined) writeOutput(context, output)
  else if (!stdout.isTty && stdout.writeBytes) stdout.writeBytes(Buffer.from(output_base64, 'base64'))
  else {
    context.tell('the result is not text: write it to a file, or use --json')
    writeOutput(context, output)
  }
}

export function tellMore(context: Context, command: string, next: string | undefined): void {
  if (next !== undefined) context.tell(context.style.stderr.dim(`there are more entries: ${command} --cursor ${next}`))
}

/** The exit status of an order or workflow, ended or not. */
export function exitCodeOfEnd({ status, error }: { status: string; error?: CallError | undefined }): number {
  if (status === 'failed' || status === 'cancelled' || status === 'canceled') {
    return error === undefined ? exitCodes.failed : exitCodeFor(error.code)
  }
  return exitCodes.done
}

/** Waits for work for a number of seconds. @throws CliError DEADLINE with the text `late`; any error of the work */
export async function withDeadline<T>(
  { io }: Context,
  { seconds, late }: { seconds: number; late: string },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limit = AbortSignal.timeout(seconds * 1000)
  try {
    return await work(AbortSignal.any([io.signal, limit]))
  } catch (error) {
    if (!limit.aborted || io.signal.aborted) throw error
    throw new CliError('DEADLINE', late, { cause: error })
  }
}

/** Polls until the work has ended. Each request waits as long as the node allows. @throws the signal's reason */
export async function waitForEnd<T extends { status: string }>(
  ask: (options: { waitSeconds: number; signal: AbortSignal }) => Promise<T>,
  signal: AbortSignal,
  seen: (state: T) => void = () => {},
): Promise<T> {
  for (;;) {
    const state = await ask({ waitSeconds: WAIT_SECONDS, signal })
    seen(state)
    if (!['pending', 'executing', 'running'].includes(state.status)) return state
  }
}
