import { Health, NodeStatus, type PeerStatus, PeerStatuses } from '../../../schema/api.ts'
import { Configuration } from '../../../schema/configuration.ts'
import { Diagnosis } from '../../../schema/diagnosis.ts'
import { type Operation, operation } from '../operation.ts'

export type NodeRouteDeps = {
  status(): NodeStatus
  peers(): readonly PeerStatus[]
  configuration(): Configuration
  diagnosis(signal: AbortSignal): Promise<Diagnosis>
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
    operation({
      id: 'getConfig',
      method: 'GET',
      path: '/config',
      summary: 'The settings of this node as they are in force, without its secrets',
      description:
        'Of URLs that may hold a key only scheme and host. A limit that is not set shows its default, one that was changed while the node runs what it is now.',
      tags: ['node'],
      access: 'private',
      // The configuration reveals whom the node trusts and how to reach it.
      scope: 'admin',
      response: Configuration,
      status: 200,
      errors: [],
      handler: () => deps.configuration(),
    }),
    operation({
      id: 'getDiagnosis',
      method: 'GET',
      path: '/diagnosis',
      summary: 'What is wrong with this node, and what to do',
      description:
        'The node looks at its agents, peers, RPC, clock and facilitator, with the settings it runs with: what `stoa doctor` asks. Changes nothing; takes up to 4 seconds.',
      tags: ['node'],
      access: 'private',
      scope: 'admin',
      response: Diagnosis,
      status: 200,
      errors: [],
      handler: ({ signal }) => deps.diagnosis(signal),
    }),
  ]
}
