import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../lib/clock.ts'
import { type Service, together } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { periodic } from '../lib/periodic.ts'
import type { ListingStore } from '../store/listings.ts'
import type { LookAlikes } from '../store/look-alikes.ts'
import { indexWaiting, reindexListings } from './reindex.ts'

const COMPARE_MS = 500
/**
 * Time per round, worked off in steps of a few ms. A market of 100,000 listings is compared within one to two minutes.
 */
const INDEX_MS = 150
const MERGE_MS = 50
const NAMES_MS = 50
const FORGET_MS = 10 * 60 * 1000

/**
 * Keeps the search index complete and correct. It indexes listings that arrived in bulk, compares new names with older
 * ones, and forgets listings that left long ago.
 */
export function searchUpkeep(deps: {
  store: ListingStore
  lookAlikes: LookAlikes
  clock: Clock
  logger: Logger
}): Service {
  const { store, lookAlikes, clock, logger } = deps
  const onError = (error: unknown) => logger.warn({ err: error }, 'the search index could not be kept up')

  async function indexAndCompare(): Promise<void> {
    await forSome(INDEX_MS, () => indexWaiting(store))
    await forSome(MERGE_MS, () => store.merge())
    await forSome(NAMES_MS, () => lookAlikes.step())
  }

  return together('search', [
    inBackground('reindex', (signal) => reindexListings(deps, signal).catch(onError)),
    periodic({ name: 'names', firstMs: COMPARE_MS, everyMs: COMPARE_MS }, { work: indexAndCompare, onError }),
    periodic(
      { name: 'forgetting', firstMs: FORGET_MS, everyMs: FORGET_MS },
      { work: () => store.index.forget(clock.now()), onError },
    ),
  ])
}

/** Repeats `step` until nothing is left or `ms` have passed. */
async function forSome(ms: number, step: () => Promise<boolean>): Promise<void> {
  for (const until = performance.now() + ms; performance.now() < until && (await step()); ) await nextTurn()
}

/** Work that starts with the node. If it is still running when the node stops, it is aborted. */
function inBackground(name: string, work: (signal: AbortSignal) => Promise<void>): Service {
  const stopping = new AbortController()
  let working: Promise<void> = Promise.resolve()
  return {
    name,
    async start() {
      working = work(stopping.signal)
    },
    async stop() {
      stopping.abort()
      await working
    },
  }
}
