import * as z from 'zod'
import { A2A_CALLER } from './caller.ts'

/** The ways by which others buy an agent of this node. */
export const doors = ['libp2p', 'a2a', 'http', 'mcp'] as const
export const Door = z.enum(doors)
export type Door = z.infer<typeof Door>

/** The door of a stored payment. Payments of before this was stored came over libp2p or A2A. */
export function doorOf(stored: string | null, peerId: string): Door {
  return doors.find((door) => door === stored) ?? (peerId.startsWith(A2A_CALLER) ? 'a2a' : 'libp2p')
}

/** The caller name of a request over a door that proves no peer: each request is a caller of its own, without memory. */
export function doorCaller(door: 'http' | 'mcp', of: string): string {
  return `${door}:${of}`
}

/** The door that a caller name of `doorCaller` names. */
export function doorOfCaller(callerId: string): 'http' | 'mcp' | undefined {
  return (['http', 'mcp'] as const).find((door) => callerId.startsWith(`${door}:`))
}

/** True for the caller name of a door that proves no peer. */
export function isDoorCaller(callerId: string): boolean {
  return /^(?:a2a|http|mcp):/.test(callerId)
}
