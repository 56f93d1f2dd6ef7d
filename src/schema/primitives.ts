import * as z from 'zod'

export type Hex = `0x${string}`

const hex = (bytes: number) => z.templateLiteral(['0x', z.string().regex(new RegExp(`^[0-9a-fA-F]{${bytes * 2}}$`))])

export const Hash32 = hex(32).meta({ description: '32 bytes as 0x-prefixed hex' })
export const Address = hex(20).meta({ description: '20-byte account address as 0x-prefixed hex' })
export const Signature65 = hex(65).meta({ description: '65-byte EIP-712 signature as 0x-prefixed hex' })

const UINT256_MAX = 2n ** 256n - 1n

/** An unsigned 256-bit integer: a decimal string on the wire, a bigint in memory. */
const Uint256Text = z.codec(z.string().regex(/^(0|[1-9][0-9]{0,77})$/), z.bigint().max(UINT256_MAX), {
  decode: (text) => BigInt(text),
  encode: (amount) => amount.toString(),
})

/** An amount in the asset's smallest unit. */
export const AtomicAmount = Uint256Text.meta({ description: 'atomic units as a decimal string (USDC has 6 decimals)' })

/** Unix seconds in the form of EIP-3009. */
export const UnixSecondsText = Uint256Text.meta({ description: 'Unix seconds as a decimal string' })

/** The networks this node can be paid on, as CAIP-2 ids. */
export const networks = ['eip155:84532', 'eip155:8453'] as const
export const Network = z.enum(networks).meta({ description: 'CAIP-2 id: Base Sepolia or Base' })
export type Network = z.infer<typeof Network>

/** Any EVM network that a peer may name, supported or not. */
export const AnyNetwork = z
  .string()
  .regex(/^eip155:[1-9][0-9]{0,15}$/)
  .meta({ description: 'CAIP-2 id, for example eip155:84532' })

/** An agent's identifier: lower-case base32, safe in a path (D5). */
export const AgentId = z
  .string()
  .regex(/^[a-z2-7]{16,64}$/)
  .meta({ description: 'id of the agent, lower-case base32' })

export const PeerId = z
  .string()
  .regex(/^[1-9A-HJ-NP-Za-km-z]{40,64}$/)
  .meta({ description: 'libp2p peer id, base58' })
