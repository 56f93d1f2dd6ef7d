import { Health, NodeStatus, type PeerStatus, PeerStatuses, type WalletBalance } from '../../../schema/api.ts'
import { Configuration } from '../../../schema/configuration.ts'
import { Diagnosis } from '../../../schema/diagnosis.ts'
import { Doors, DoorTests } from '../../../schema/doors.ts'
import { Fleet } from '../../../schema/fleet.ts'
import { type Operation, operation } from '../operation.ts'
import { statusFor } from '../status-for.ts'

export type NodePart = {
  status(): Promise<NodeStatus>
  peers(): readonly PeerStatus[]
  fleet(): Promise<Fleet>
  doors(): Promise<Doors>
  testDoors(): Promise<DoorTests>
  balance(): Promise<WalletBalance>
  configuration(): Promise<Configuration>
  diagnosis(signal: AbortSignal): Promise<Diagnosis>
}

const row = { method: 'GET', tags: ['node'], access: 'private', scope: 'read' } as const

export function nodeRoutes(node: NodePart): Operation[] {
  return [
    getHealth(),
    getStatus(node),
    listPeers(node),
    getFleet(node),
    getDoors(node),
    testDoors(node),
    getConfig(node),
    getDiagnosis(node),
  ]
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
    handler: async ({ caller }) => statusFor(caller, await node.status()),
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

const getDoors = (node: NodePart) =>
  operation({
    ...row,
    id: 'getDoors',
    path: '/doors',
    summary: 'Where others buy from this node',
    description:
      'Each way in, with the address of each agent, and what was sold by it. Also the door by which programs of the ' +
      'operator buy, and the outcome of the last test of the addresses.',
    response: Doors,
    handler: () => node.doors(),
  })

const testDoors = (node: NodePart) =>
  operation({
    ...row,
    id: 'testDoors',
    method: 'POST',
    path: '/doors/test',
    summary: 'Test the addresses for strangers',
    description:
      'The node asks each address that it gives to clients, as a client would: TLS, status 402, the price of the ' +
      'listing. Nothing is paid and no agent runs.',
    scope: 'admin',
    response: DoorTests,
    handler: () => node.testDoors(),
  })

const getFleet = (node: NodePart) =>
  operation({
    ...row,
    id: 'getFleet',
    path: '/fleet',
    summary: 'The processes and workers of this seller',
    description:
      'Each process that shares the ledger, with its version, lease, addresses, agents, load, clock, and how long it ' +
      'waits for the database. Those that ended lately. The workers, with their load. A node alone shows itself.',
    // It names machines, and where the ledger is.
    scope: 'admin',
    response: Fleet,
    handler: () => node.fleet(),
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
      'Checks agents, peers, the public listener, RPC, clock, facilitator, other processes and workers with the settings that the node runs with. `stoa doctor` ' +
      'shows the same. Changes nothing. Takes at most 4 s.',
    scope: 'admin',
    response: Diagnosis,
    handler: ({ signal }) => node.diagnosis(signal),
  })
