import { formatAmount } from '../schema/amount.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Chain } from './chain.ts'

export const ETHER_DECIMALS = 18

/** The ETH of an account as decimal text. Undefined if the RPC does not answer, so that its USDC can still be shown. */
export async function etherOf(
  chain: Pick<Chain, 'request'>,
  account: Hex,
  signal: AbortSignal,
): Promise<string | undefined> {
  const answer = await chain.request('eth_getBalance', [account, 'latest'], signal).catch(() => undefined)
  return typeof answer === 'string' && /^0x[0-9a-fA-F]{1,64}$/.test(answer)
    ? formatAmount(BigInt(answer), ETHER_DECIMALS)
    : undefined
}
