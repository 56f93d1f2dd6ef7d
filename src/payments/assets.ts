import type { Hex, Network } from '../schema/primitives.ts'

/** USDC per network. The EIP-712 domain names differ: a signature under the wrong name never settles (T14). */
export const assets = {
  'eip155:84532': {
    network: 'eip155:84532',
    address: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
    symbol: 'USDC',
    name: 'USDC',
    version: '2',
    decimals: 6,
    chainId: 84532,
  },
  'eip155:8453': {
    network: 'eip155:8453',
    address: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913',
    symbol: 'USDC',
    name: 'USD Coin',
    version: '2',
    decimals: 6,
    chainId: 8453,
  },
} as const satisfies Record<Network, Asset>

export type Asset = {
  network: Network
  address: Hex
  symbol: string
  name: string
  version: string
  decimals: number
  chainId: number
}

export function assetOf(network: string): Asset | undefined {
  return Object.hasOwn(assets, network) ? assets[network as Network] : undefined
}

export function sameAddress(a: string, b: string): boolean {
  return a.length === b.length && a.toLowerCase() === b.toLowerCase()
}
