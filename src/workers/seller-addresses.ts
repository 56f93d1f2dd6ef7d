import * as z from 'zod'
import { CodedError } from '../lib/errors.ts'
import { parseJson } from '../lib/json.ts'
import type { Logger } from '../lib/logger.ts'
import { SELLER_ADDRESSES_MAX } from '../schema/work.ts'
import { readSecretFile, writeSecretFile } from '../store/secret-file.ts'

const Kept = z.object({ peer: z.string().max(128), addrs: z.array(z.string().max(512)).max(SELLER_ADDRESSES_MAX) })

/** Where a worker finds the processes of its seller. */
type SellerAddresses = {
  /** Dials the addresses that the seller has told last, and if none of them answers, those of the join token. */
  dial<T>(attempt: (addrs: readonly string[]) => Promise<T>): Promise<T>
  /** Keeps what the seller tells. An empty list says nothing. */
  learn(addrs: readonly string[]): void
}

/**
 * The addresses of the join token are those of the processes that ran when the worker was invited. All of them may be
 * replaced over time. So a seller tells its workers the addresses of those that run, and a worker keeps them on disk.
 */
export async function openSellerAddresses(
  path: string,
  { peer, addrs, logger }: { peer: string; addrs: readonly string[]; logger: Logger },
): Promise<SellerAddresses> {
  const read = await readSecretFile(path).catch(() => undefined)
  const kept = Kept.safeParse(read === undefined ? undefined : parseJson(read)).data
  let known: readonly string[] = kept?.peer === peer ? kept.addrs : []
  let writing = Promise.resolve()

  return {
    async dial(attempt) {
      if (known.length === 0) return attempt(addrs)
      return attempt(known).catch((error: unknown) => {
        if (!(error instanceof CodedError) || error.code !== 'PEER_UNREACHABLE') throw error
        return attempt(addrs)
      })
    },
    learn(told) {
      if (told.length === 0 || told.join() === known.join()) return
      known = [...told]
      const text = `${JSON.stringify({ peer, addrs: known })}\n`
      writing = writing
        .then(() => writeSecretFile(path, text, { replace: true }))
        .catch((err: unknown) => logger.warn({ err }, 'the addresses of the seller could not be kept'))
    },
  }
}
