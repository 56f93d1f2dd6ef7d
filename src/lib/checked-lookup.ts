import { type LookupAddress, type LookupOptions, lookup as lookupName } from 'node:dns'
import type { LookupFunction } from 'node:net'

/**
 * Resolves a name for the connection itself, so that the address cannot change between check and use.
 *
 * @param refusal why a name with these addresses is not asked. Undefined: it is
 */
export function checkedLookup(
  refusal: (addresses: readonly string[], hostname: string) => Error | undefined,
): LookupFunction {
  return (hostname, options, callback) => {
    lookupName(hostname, { ...options, all: true }, (error, found) => {
      const failure =
        error ??
        refusal(
          found.map(({ address }) => address),
          hostname,
        )
      if (failure === undefined) giveAddresses(found, options, callback)
      else callback(failure, '', 0)
    })
  }
}

/** Answers a lookup in the form that the connection asks for: all addresses, or the first one. */
export function giveAddresses(
  addresses: readonly LookupAddress[],
  { all }: Pick<LookupOptions, 'all'>,
  callback: Parameters<LookupFunction>[2],
): void {
  if (all === true) (callback as unknown as (error: null, list: readonly LookupAddress[]) => void)(null, addresses)
  else callback(null, addresses[0]!.address, addresses[0]!.family)
}
