import { createPublicClient, http } from 'viem'
import { describeChain } from './chain.ts'

const RPC_TIMEOUT_MS = 10_000

export type FacilitatorClient = ReturnType<typeof createFacilitatorClient>

/** The facilitator's own connection to the chain. */
export function createFacilitatorClient(rpcUrl: string) {
  return createPublicClient({
    chain: describeChain(rpcUrl),
    transport: http(rpcUrl, { timeout: RPC_TIMEOUT_MS, retryCount: 0 }),
    // Blocks come at once here: looking often costs little and waiting costs every test.
    pollingInterval: 20,
    cacheTime: 0,
  })
}
