import { hash } from 'node:crypto'

/** The id of the only session between an agent and a caller (D19). It is a hash of both, so nothing is stored. */
export function sessionId(agentId: string, callerId: string): string {
  const hex = hash('sha256', `session\n${agentId}\n${callerId}`, 'hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}
