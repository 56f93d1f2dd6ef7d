import { StoreError } from '../../src/store/store-error.ts'

export type HowItFails = {
  code?: 'STORE_AWAY' | 'STORE_IN_DOUBT' | 'STORE_WRITE_FAILED'
  /** The call has done its work by then: only its answer is lost. */
  isStored?: boolean
  /** Called before the error. */
  then?(): void
}

/** Fails the next call of a method of the ledger, and none after it. */
export function failNext<Ledger extends object>(
  ledger: Ledger,
  name: keyof Ledger,
  { code = 'STORE_AWAY', isStored = false, then }: HowItFails = {},
): void {
  const methods = ledger as Record<keyof Ledger, (...args: unknown[]) => Promise<unknown>>
  const method = methods[name]
  methods[name] = async (...args) => {
    methods[name] = method
    if (isStored) await method(...args)
    then?.()
    const reason = code === 'STORE_IN_DOUBT' ? 'the connection was lost' : 'the database cannot be reached'
    throw new StoreError(code, reason)
  }
}
