import type { LedgerDatabase } from './ledger-database.ts'
import { type Query, steps } from './query.ts'
import { ConnectionBroken, isLedgerAway } from './store-error.ts'

type Gathering<Item, Value> = {
  /** One change for many items, with a value for each. If it throws, `alone` decides, unless the database is away. */
  change(items: readonly Item[]): Query<readonly Value[]>
  /** One item by itself, after a change of many has thrown. */
  alone(item: Item): Promise<Value>
  /** True if an item must be stored before the next one begins. Else they share a commit. */
  isOrdered: boolean
  /** True if `alone` may store an item whose change has thrown this. Default: never. */
  mayPassAlone?(error: unknown): boolean
  /** What an item takes, in bytes. */
  sizeOf(item: Item): number
}

type WaitingItem<Item, Value> = { item: Item; resolve(value: Value): void; reject(error: unknown): void }

/** Items and bytes of one change at most. A longer item has a change of its own. */
const ITEMS_MAX = 256
const BYTES_MAX = 4 * 1024 * 1024

/**
 * Stores many items in one change: those that come in one turn of the event loop, or while others are stored. So what is
 * the same for all of them is read and written once.
 */
export function gathered<Item, Value>(
  database: Pick<LedgerDatabase, 'commit'>,
  { change, alone, isOrdered, mayPassAlone = () => false, sizeOf }: Gathering<Item, Value>,
): (item: Item) => Promise<Value> {
  let waiting: WaitingItem<Item, Value>[] = []
  let isStoring = false

  function take(): WaitingItem<Item, Value>[] {
    let [count, bytes] = [0, 0]
    for (const { item } of waiting) {
      bytes += sizeOf(item)
      if (count > 0 && (count === ITEMS_MAX || bytes > BYTES_MAX)) break
      count++
    }
    const taken = waiting.slice(0, count)
    waiting = waiting.slice(count)
    return taken
  }

  async function store(): Promise<void> {
    let begun: WaitingItem<Item, Value>[] | undefined
    // What comes until the transaction begins is in it. A transaction that is run again has the same items.
    const changed = steps(function* () {
      begun ??= take()
      return yield* change(begun.map(({ item }) => item))
    })
    try {
      const values = await database.commit(changed)
      for (const [at, { resolve }] of begun!.entries()) resolve(values[at]!)
    } catch (error) {
      begun ??= take()
      const isOver = begun.length === 1 && !mayPassAlone(error)
      if (isOver || isAway(error)) for (const { reject } of begun) reject(error)
      else if (isOrdered) await inTurn(begun)
      else await Promise.all(begun.map(({ item, resolve, reject }) => alone(item).then(resolve, reject)))
    }
  }

  async function inTurn(items: readonly WaitingItem<Item, Value>[]): Promise<void> {
    for (const [at, { item, resolve, reject }] of items.entries()) {
      try {
        resolve(await alone(item))
      } catch (error) {
        reject(error)
        if (!isAway(error)) continue
        // The rest waits for the database together.
        waiting = [...items.slice(at + 1), ...waiting]
        return
      }
    }
  }

  async function storeAll(): Promise<void> {
    isStoring = true
    while (waiting.length > 0) await store()
    isStoring = false
  }

  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject })
      if (!isStoring) void storeAll()
    })
}

/** True if each item alone would wait for the database just as long. After a broken connection each is tried alone. */
function isAway(error: unknown): boolean {
  return isLedgerAway(error) && !(error instanceof ConnectionBroken)
}
