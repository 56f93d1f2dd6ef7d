import * as z from 'zod'
import type { Network } from './primitives.ts'

/** Whether amounts on a network are test money or real money (D37). */
export const NetworkKind = z.enum(['test', 'live']).meta({ description: '`test`: test money; `live`: real money' })
export type NetworkKind = z.infer<typeof NetworkKind>

const kinds: Readonly<Record<Network, NetworkKind>> = { 'eip155:84532': 'test', 'eip155:8453': 'live' }
const titles: Readonly<Record<Network, string>> = { 'eip155:84532': 'Base Sepolia', 'eip155:8453': 'Base' }

/** An unknown network counts as live, so that nobody mistakes real money for test money. */
export function networkKind(network: string): NetworkKind {
  return Object.hasOwn(kinds, network) ? kinds[network as Network] : 'live'
}

/** For example `Base Sepolia, test money`. */
export function networkText(network: string): string {
  const title = Object.hasOwn(titles, network) ? titles[network as Network] : network
  return `${title}, ${networkKind(network) === 'test' ? 'test' : 'real'} money`
}
