import type { Transfers } from '../../../payments/transfers.ts'
import { WalletBalance } from '../../../schema/api.ts'
import { SendTransfer, Transfer } from '../../../schema/transfer.ts'
import { type Operation, operation } from '../operation.ts'
import type { NodePart } from './node.ts'
import { TRANSACTION_ERRORS } from './transaction-errors.ts'

export function walletRoutes(node: Pick<NodePart, 'balance'>, transfers: Transfers): Operation[] {
  return [
    operation({
      id: 'getWalletBalance',
      method: 'GET',
      path: '/wallet/balance',
      summary: 'The USDC balance of the node',
      description: 'Read from the chain at each request.',
      tags: ['wallet'],
      access: 'private',
      scope: 'read',
      response: WalletBalance,
      errors: ['CHAIN_UNAVAILABLE', 'CHAIN_WRONG', 'WALLET_UNAVAILABLE'],
      handler: () => node.balance(),
    }),
    operation({
      id: 'sendFromWallet',
      method: 'POST',
      path: '/wallet/send',
      summary: 'Send USDC or ETH out of the wallet',
      description:
        "A transaction of the node's own account, which costs gas: the wallet needs a little ETH. USDC that is " +
        'signed for and not charged yet stays. No budget limits it, so it needs a token on loopback too. Answers ' +
        'when it is mined. The same request with the same `Idempotency-Key` is sent once. Without a key, a request ' +
        'that equals a waiting transaction is refused. `network` names the network that is meant: a node that was ' +
        'restarted on another refuses.',
      tags: ['wallet'],
      access: 'token',
      scope: 'admin',
      idempotent: true,
      body: SendTransfer,
      example: {
        to: '0x209693Bc6afc0C5328bA36FaF03C514EF312287C',
        amount: '1.5',
        asset: 'USDC',
        network: 'eip155:84532',
      },
      response: Transfer,
      errors: ['NETWORK_MISMATCH', 'INSUFFICIENT_FUNDS', 'IDEMPOTENCY_CONFLICT', ...TRANSACTION_ERRORS],
      handler: ({ body, caller, idempotencyKey, signal }) => transfers.send(body, { caller, idempotencyKey, signal }),
    }),
  ]
}
