import * as z from 'zod'
import { NetworkKind } from './network-kind.ts'
import { Address, Network, networks } from './primitives.ts'

export const transferAssets = ['USDC', 'ETH'] as const
const AmountText = z
  .string({ error: 'must be text, such as "1.5"' })
  .max(60)
  .meta({ description: 'decimal text: at most 6 decimals of USDC, 18 of ETH' })

export const SendTransfer = z
  .strictObject({
    to: Address.meta({ description: 'account of the recipient; mixed letter case must match the checksum (EIP-55)' }),
    amount: AmountText,
    asset: z.enum(transferAssets).optional().meta({ description: 'default: USDC' }),
    network: z
      .enum(networks, {
        error: `must be the network of the transfer, such as "${networks[0]}": see \`network\` of GET /wallet/balance`,
      })
      .meta({
        description:
          'CAIP-2 id of the network of the transfer; refused with 409 `NETWORK_MISMATCH` if the node uses another network',
      }),
  })
  .meta({ id: 'SendTransfer' })
export type SendTransfer = z.infer<typeof SendTransfer>

export const Transfer = z
  .object({
    tx_hash: z.string().meta({ description: 'the transaction that was mined' }),
    network: Network,
    network_kind: NetworkKind,
    asset: z.enum(transferAssets),
    amount: AmountText,
    amount_atomic: z.string(),
    from: Address,
    to: Address,
  })
  .meta({ id: 'Transfer', description: 'A transfer from the wallet of the node.' })
export type Transfer = z.infer<typeof Transfer>
