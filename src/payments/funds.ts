import type { Chain } from '../chain/chain.ts'
import type { Claim } from '../store/payments.ts'

export type FundsChain = Pick<Chain, 'usdcBalance' | 'authorizationUse' | 'simulateTransfer'>

/**
 * Why the chain would refuse a payment, or what its account holds if that was read. @throws ChainError
 *
 * @param owes what the account must hold for all open work. Undefined: this payment alone, and only if the transfer
 * cannot be simulated.
 */
export async function askFunds(
  { signed, requirements: { asset, amount } }: Claim,
  owes: bigint | undefined,
  chain: FundsChain,
  signal: AbortSignal,
): Promise<{ refusal: string } | { held: bigint | undefined }> {
  const { from, nonce } = signed.authorization
  const balanceOf = () => chain.usdcBalance(from, signal)
  const [simulated, balance] = await Promise.all([
    chain.simulateTransfer(asset, signed, signal),
    owes === undefined ? undefined : balanceOf(),
  ])
  if (simulated.kind === 'refused') {
    return { refusal: `the chain refuses this transfer: ${simulated.reason}; nothing was charged` }
  }
  let held = balance
  if (simulated.kind === 'untimely') {
    // The newest block is older than the window, so the transfer cannot be simulated. Nonce and balance can be read.
    const use = await chain.authorizationUse(asset, from, nonce, signal)
    if (use.state !== 'unused') return { refusal: 'the chain shows this authorization as spent or canceled' }
    held ??= await balanceOf()
  }
  if (held === undefined || held >= (owes ?? amount)) return { held: owes === undefined ? undefined : held }
  return { refusal: 'the account of the payer holds less than it has signed for; nothing was charged' }
}
