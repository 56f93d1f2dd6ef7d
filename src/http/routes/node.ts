import { Health, NodeStatus, type PeerStatus, PeerStatuses } from '../../schema/api.ts'
import { type Operation, operation } from '../operation.ts'

export type NodeRouteDeps = {
  status(): NodeStatus
  peers(): readonly PeerStatus[]
}

export function nodeRoutes(deps: NodeRouteDeps): Operation[] {
  return [
    operation({
      id: 'getHealth',
      method: 'GET',
      path: '/health',
      summary: 'Whether the node answers',
      tags: ['node'],
      access: 'health',
      scope: 'read',
      response: Health,
      status: 200,
      errors: [],
      handler: (): Health => ({ status: 'ok' }),
    }),
    operation({
      id: 'getStatus',
      method: 'GET',
      path: '/status',
      summary: 'The node in one look',
      description: 'Peer id, addresses, connected peers, agents, settlement. Suitable for scraping.',
      tags: ['node'],
      access: 'private',
      scope: 'read',
      response: NodeStatus,
      status: 200,
      errors: [],
      handler: () => deps.status(),
    }),
    operation({
      id: 'listPeers',
      method: 'GET',
      path: '/peers',
      summary: 'Connected peers',
      tags: ['node'],
      access: 'private',
      scope: 'read',
      response: PeerStatuses,
      status: 200,
      errors: [],
      handler: () => [...deps.peers()],
    }),
  ]
}
