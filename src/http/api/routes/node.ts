import { Health, NodeStatus, type PeerStatus, PeerStatuses, type WalletBalance } from '../../../schema/api.ts'
import { Configuration } from '../../../schema/configuration.ts'
import { Diagnosis } from '../../../schema/diagnosis.ts'
import { type Operation, operation } from '../operation.ts'

export type NodePart = {
  status(): Promise<NodeStatus>
  peers(): readonly PeerStatus[]
  balance(): Promise<WalletBalance>
  configuration(): Promise<Configuration>
  diagnosis(signal: AbortSignal): Promise<Diagnosis>
}

const row = { method: 'GET', tags: ['node'], access: 'private', scope: 'read' } as const

export function nodeRoutes(node: NodePart): Operation[] {
  return [getHealth(), getStatus(node), listPeers(node), getConfig(node), getDiagnosis(node)]
}

const getHealth = () =>
  operation({
    ...row,
    id: 'getHealth',
    path: '/health',
    summary: 'Whether the node answers',
    access: 'health',
    response: Health,
    handler: (): Health => ({ status: 'ok' }),
  })

const getStatus = (node: NodePart) =>
  operation({
    ...row,
    id: 'getStatus',
    path: '/status',
    summary: 'The state of the node',
    description: 'Peer id, addresses, connected peers, agents, settlement. Suitable for scraping.',
    response: NodeStatus,
    handler: () => node.status(),
  })

const listPeers = (node: NodePart) =>
  operation({
    ...row,
    id: 'listPeers',
    path: '/peers',
    summary: 'Connected peers',
    response: PeerStatuses,
    handler: () => [...node.peers()],
  })

const getConfig = (node: NodePart) =>
  operation({
    ...row,
    id: 'getConfig',
    path: '/config',
    summary: 'The settings in force, without secrets',
    description:
      'Of a URL that may hold a key, only scheme and host are shown. A limit that is not set shows its default. A ' +
      'limit that was changed while the node runs shows its current value.',
    // The configuration reveals whom the node trusts and how to reach it.
    scope: 'admin',
    response: Configuration,
    handler: () => node.configuration(),
  })

const getDiagnosis = (node: NodePart) =>
  operation({
    ...row,
    id: 'getDiagnosis',
    path: '/diagnosis',
    summary: 'What is wrong with this node, and what to do',
    description:
      'Checks agents, peers, RPC, clock and facilitator with the settings that the node runs with. `stoa doctor` ' +
      'shows the same. Changes nothing. Takes at most 4 s.',
    scope: 'admin',
    response: Diagnosis,
    handler: ({ signal }) => node.diagnosis(signal),
  })
