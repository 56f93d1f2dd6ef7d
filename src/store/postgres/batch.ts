import type { DatabaseError, Submittable, Connection as Wire } from 'pg'
import type { Answer, Value } from '../query.ts'
import type { Prepared, PreparedStatements } from './prepared.ts'
import type { Sent } from './sent.ts'
import { decoderOf, type Encoded } from './values.ts'

/**
 * How a batch ended, and the answers that came before that. `refused`: the database refused the statement `at`, and
 * skipped those after it. `lost`: the connection is gone, and nobody knows how far it came.
 */
export type Outcome =
  | { readonly kind: 'done'; readonly answers: readonly Answer[] }
  | { readonly kind: 'refused'; readonly answers: readonly Answer[]; readonly at: number; readonly error: Error }
  | { readonly kind: 'lost'; readonly answers: readonly Answer[]; readonly error: Error }

type Open = { prepared: Prepared; wants: Sent['wants']; rows: Record<string, Value>[]; unreadable?: unknown }
type RowDescription = { fields: readonly { name: string; dataTypeID: number }[] }

/** What `pg` has and its types do not name in this form. */
type Writable = {
  stream: { cork(): void; uncork(): void }
  parse(message: { name: string; text: string; types: readonly number[] }): void
  bind(message: { statement: string; values: readonly Encoded[] }): void
  describe(message: { type: 'P'; name: '' }): void
  execute(message: undefined): void
  close(message: { type: 'S'; name: string }): void
  flush(): void
  sync(): void
}

/**
 * Statements that travel together, in one round trip: `pg` sends what `submit` writes, and hands over the messages that
 * come back.
 *
 * `pg` can pipeline queries too. But there each query has its own end, after which the server goes on with the next one even after
 * an error, and answers in a packet of its own. Here an error skips all that follows.
 */
export class Batch implements Submittable {
  readonly ended: Promise<Outcome>
  readonly #statements: readonly Sent[]
  readonly #prepared: PreparedStatements
  /** What may be read of an answer although the connection is lost later. */
  readonly #flushBefore: number
  readonly #answers: Answer[] = []
  #opens: Open[] = []
  #resolve!: (outcome: Outcome) => void
  #broken: Error | undefined

  /** @param flushBefore number of the statement before which the server sends what it has answered so far */
  constructor(statements: readonly Sent[], prepared: PreparedStatements, flushBefore = -1) {
    this.#statements = statements
    this.#prepared = prepared
    this.#flushBefore = flushBefore
    this.ended = new Promise((resolve) => {
      this.#resolve = resolve
    })
  }

  submit = (connection: Wire): void => {
    const wire = connection as unknown as Writable
    wire.stream.cork()
    for (const [index, statement] of this.#statements.entries()) {
      if (index === this.#flushBefore) wire.flush()
      const prepared = this.#prepared.get(statement)
      for (const name of prepared.close) wire.close({ type: 'S', name })
      prepared.close = []
      if (!prepared.sent) wire.parse({ name: prepared.name, text: statement.text, types: statement.types })
      prepared.sent = true
      wire.bind({ statement: prepared.name, values: statement.values })
      if (prepared.columns === undefined) wire.describe({ type: 'P', name: '' })
      wire.execute(undefined)
      this.#opens.push({ prepared, wants: statement.wants, rows: [] })
    }
    wire.sync()
    wire.stream.uncork()
  }

  handleRowDescription({ fields }: RowDescription): void {
    const columns = fields.map(({ name, dataTypeID }) => ({ name, decode: decoderOf(dataTypeID) }))
    this.#opens[this.#answers.length]!.prepared.columns = columns
  }

  handleDataRow({ fields }: { fields: readonly (string | null)[] }): void {
    const open = this.#opens[this.#answers.length]!
    if (open.wants !== 'rows') return
    try {
      const row: Record<string, Value> = {}
      for (const [index, { name, decode }] of open.prepared.columns!.entries()) {
        const text = fields[index]!
        row[name] = text === null ? null : decode(text)
      }
      open.rows.push(row)
    } catch (error) {
      open.unreadable = error
    }
  }

  handleCommandComplete({ text }: { text: string }): void {
    const { prepared, wants, rows, unreadable } = this.#opens[this.#answers.length]!
    prepared.columns ??= []
    prepared.isKnown = true
    if (text === 'ROLLBACK' && this.#statements[this.#answers.length]!.text === 'COMMIT') {
      this.#broken ??= new Error('the database rolled back what it was to commit')
    }
    const changes = /^(?:INSERT|UPDATE|DELETE|MERGE)/.test(text) ? Number(text.slice(text.lastIndexOf(' ') + 1)) : 0
    if (unreadable !== undefined) this.#answers.push(unreadableAnswer(unreadable))
    else this.#answers.push(wants === 'rows' ? { rows, changes: 0 } : { rows: [], changes })
  }

  handleReadyForQuery(): void {
    if (this.#broken === undefined) this.#resolve({ kind: 'done', answers: this.#answers })
    else this.#refused(this.#broken)
  }

  /** `pg` calls this once for an error of the server, and for a connection that is lost or was lost before. */
  handleError(error: Error): void {
    const isOfServer = (error as DatabaseError).severity !== undefined
    if (isOfServer && !isEndOfConnection(error as DatabaseError)) this.#refused(error)
    else this.#resolve({ kind: 'lost', answers: this.#answers, error })
  }

  #refused(error: Error): void {
    // Whether those after the one at fault were prepared is not known: they are made anew.
    for (const { prepared } of this.#opens) if (!prepared.isKnown) this.#prepared.forget(prepared)
    this.#resolve({ kind: 'refused', answers: this.#answers, at: this.#answers.length, error })
  }

  handlePortalSuspended(): void {}
  handleEmptyQuery(): void {}
}

/** Only the query that asked for it fails, where it reads the answer. */
function unreadableAnswer(error: unknown): Answer {
  return {
    changes: 0,
    get rows(): never {
      throw error
    },
  }
}

/** Shut down, ended by an operator, or after too long an idle time. The server closes the connection after these. */
function isEndOfConnection({ code, severity }: DatabaseError): boolean {
  return severity === 'FATAL' || severity === 'PANIC' || /^(?:57P|08|25P03)/.test(code ?? '')
}
