import { WalletBalance } from '../../schema/api.ts'
import { type Operation, operation } from '../operation.ts'

export type WalletRouteDeps = { balance(): Promise<WalletBalance> }

export function walletRoutes(deps: WalletRouteDeps): Operation[] {
  return [
    operation({
      id: 'getWalletBalance',
      method: 'GET',
      path: '/wallet/balance',
      summary: "The node's USDC",
      description: 'Read from the chain at each call.',
      tags: ['wallet'],
      access: 'private',
      scope: 'read',
      response: WalletBalance,
      status: 200,
      errors: ['CHAIN_UNAVAILABLE', 'CHAIN_WRONG', 'WALLET_UNAVAILABLE'],
      handler: () => deps.balance(),
    }),
  ]
}
