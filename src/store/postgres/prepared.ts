import type { Sent } from './sent.ts'
import type { decoderOf } from './values.ts'

/** A statement that the server has parsed for one connection. */
export type Prepared = {
  readonly key: string
  readonly name: string
  /** It is on its way to the server, or there. */
  sent: boolean
  /** The server has run it. */
  isKnown: boolean
  /** Names that the server forgets before it parses this one. */
  close: string[]
  /** Of its rows, once the server has named them. */
  columns: { name: string; decode: ReturnType<typeof decoderOf> }[] | undefined
}

const PREPARED_MAX = 400

/** The statements that one connection has prepared, so that each is parsed, and its columns are named, once. */
export class PreparedStatements {
  readonly #all = new Map<string, Prepared>()
  /** Statements that may be known to the server under these names, and are used no more. */
  #stale: string[] = []
  #count = 0
  readonly #prefix: string

  /** @param generation tells the names of one connection apart, if it begins anew */
  constructor(generation = 0) {
    this.#prefix = `s${generation}_`
  }

  get({ text, types }: Pick<Sent, 'text' | 'types'>): Prepared {
    const key = `${types.join()} ${text}`
    const found = this.#all.get(key)
    if (found !== undefined) {
      // The least used is the first.
      this.#all.delete(key)
      this.#all.set(key, found)
      return found
    }
    if (this.#all.size >= PREPARED_MAX) this.forget(this.#all.values().next().value!)
    this.#count += 1
    const made = {
      key,
      name: `${this.#prefix}${this.#count}`,
      sent: false,
      isKnown: false,
      close: this.#stale,
      columns: undefined,
    }
    this.#stale = []
    this.#all.set(key, made)
    return made
  }

  /** The next statement that is prepared closes it. */
  forget(prepared: Prepared): void {
    if (this.#all.get(prepared.key) !== prepared) return
    this.#all.delete(prepared.key)
    if (prepared.sent) this.#stale.push(prepared.name, ...prepared.close)
  }
}
