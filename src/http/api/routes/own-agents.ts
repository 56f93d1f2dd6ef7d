import { type AgentDefinition, privateFields } from '../../../schema/agent.ts'
import { AgentParams } from '../../../schema/api.ts'
import { permits } from '../../../schema/caller.ts'
import {
  AvailableModels,
  OwnAgent,
  OwnAgents,
  type RegisteredAgent,
  ReloadedAgents,
  TestAgent,
  TestResult,
  TryAgent,
  UpdateAgent,
} from '../../../schema/own-agent.ts'
import type { OperateAgents } from '../../../selling/agent-admin.ts'
import { type Operation, operation } from '../operation.ts'
import { refuseAgent } from './refuse-agent.ts'

export type OwnAgentsPart = Pick<
  OperateAgents,
  'list' | 'reload' | 'update' | 'setPaused' | 'remove' | 'test' | 'tryOut'
> & {
  register(definition: AgentDefinition): Promise<RegisteredAgent>
  models(signal: AbortSignal): Promise<AvailableModels>
}

const all = { tags: ['own agents'], access: 'private', scope: 'admin' } as const
const row = { ...all, params: AgentParams } as const
const writing = ['UNKNOWN_AGENT', 'CONFIG_INVALID', 'STORE_WRITE_FAILED'] as const

export function ownAgentRoutes(ownAgents: OwnAgentsPart): Operation[] {
  return [
    listOwnAgents(ownAgents),
    reloadAgents(ownAgents),
    updateAgent(ownAgents),
    removeAgent(ownAgents),
    setPaused(ownAgents, true, { verb: 'pause', summary: 'Take an own agent off the market, and keep it' }),
    setPaused(ownAgents, false, { verb: 'resume', summary: 'Put a paused agent back on the market' }),
    testAgent(ownAgents),
    tryAgent(ownAgents),
    listModels(ownAgents),
  ]
}

const listOwnAgents = (ownAgents: OwnAgentsPart) =>
  operation({
    ...all,
    id: 'listOwnAgents',
    method: 'GET',
    path: '/agents/own',
    summary: "This node's own agents, paused ones included",
    description: 'Only `admin` sees instructions and model parameters.',
    scope: 'read',
    response: OwnAgents,
    handler: ({ caller }) => (permits(caller.scope, 'admin') ? ownAgents.list() : ownAgents.list().map(withoutPrivate)),
  })

const reloadAgents = (ownAgents: OwnAgentsPart) =>
  operation({
    ...all,
    id: 'reloadAgents',
    method: 'POST',
    repeatable: true,
    path: '/agents/reload',
    summary: 'Read agents.yaml again',
    description:
      'Adds, changes and removes the agents whose entries changed, without a restart. The others stay as they are. Running tasks end as they began. A file with a mistake changes nothing: the error names the line and the agent. Keys are those that the node had at its start. Other processes of the seller read their own agents.yaml, each when it is asked.',
    response: ReloadedAgents,
    errors: ['CONFIG_INVALID', 'AGENTS_TOO_MANY', 'LISTINGS_FULL', 'STORE_WRITE_FAILED'],
    handler: () => ownAgents.reload().catch(refuseAgent),
  })

const updateAgent = (ownAgents: OwnAgentsPart) =>
  operation({
    ...row,
    id: 'updateAgent',
    method: 'PATCH',
    path: '/agents/{id}',
    summary: 'Change an own agent',
    description:
      'Changes the agent here, on the market and in agents.yaml. Running tasks end as they began. Other processes of the seller keep their settings: `differs_at` names them.',
    body: UpdateAgent,
    example: { price: 0.02 },
    response: OwnAgent,
    errors: [...writing, 'FIELD_NOT_ALLOWED'],
    handler: ({ params, body }) => ownAgents.update(params.id, body).catch(refuseAgent),
  })

const removeAgent = (ownAgents: OwnAgentsPart) =>
  operation({
    ...row,
    id: 'removeAgent',
    method: 'DELETE',
    path: '/agents/{id}',
    summary: 'Remove an own agent',
    description: 'Takes the agent off the market and out of agents.yaml. Its payments and executions are kept.',
    response: OwnAgent,
    errors: writing,
    handler: ({ params }) => ownAgents.remove(params.id).catch(refuseAgent),
  })

const setPaused = (ownAgents: OwnAgentsPart, paused: boolean, { verb, summary }: { verb: string; summary: string }) =>
  operation({
    ...row,
    id: `${verb}Agent`,
    method: 'POST',
    repeatable: true,
    path: `/agents/{id}/${verb}`,
    summary,
    response: OwnAgent,
    errors: writing,
    handler: ({ params }) => ownAgents.setPaused(params.id, paused).catch(refuseAgent),
  })

const testAgent = (ownAgents: OwnAgentsPart) =>
  operation({
    ...row,
    id: 'testAgent',
    method: 'POST',
    path: '/agents/{id}/test',
    summary: 'Run an own agent once, unpaid and not recorded',
    body: TestAgent,
    example: { task: 'Summarize: …' },
    response: TestResult,
    errors: ['UNKNOWN_AGENT', 'AGENT_FAILED', 'AGENT_TIMEOUT', 'AGENT_NOT_RUNNABLE', 'INPUT_TOO_LARGE', 'OVERLOADED'],
    handler: ({ params, body, signal }) => ownAgents.test(params.id, body.task, signal),
  })

const tryAgent = (ownAgents: OwnAgentsPart) =>
  operation({
    ...all,
    id: 'tryAgent',
    method: 'POST',
    path: '/agents/try',
    summary: 'Run an agent once before it is registered',
    description: 'The run is unpaid and not recorded. The agent is not kept and not listed.',
    body: TryAgent,
    example: {
      agent: { name: 'Echo', description: 'Says it again.', price: 0, model: 'builtin/echo' },
      task: 'Hello',
    },
    response: TestResult,
    errors: ['AGENT_FAILED', 'AGENT_TIMEOUT', 'AGENT_NOT_RUNNABLE', 'INPUT_TOO_LARGE', 'OVERLOADED'],
    handler: ({ body, signal }) => ownAgents.tryOut(body.agent, body.task, signal),
  })

const listModels = (ownAgents: OwnAgentsPart) =>
  operation({
    ...all,
    id: 'listModels',
    method: 'GET',
    path: '/models',
    summary: 'What an agent of this node can run on',
    description:
      'Asks each model server for which the node has a key or an address, for at most 5 s. Only servers with an API ' +
      'like that of OpenAI can answer. Models of other servers can be named by hand.',
    response: AvailableModels,
    handler: ({ signal }) => ownAgents.models(signal),
  })

/** An agent without the fields that only its operator may see (D47), and the names of machines. */
function withoutPrivate({ differs_at: _places, ...agent }: OwnAgent): OwnAgent {
  const shown = Object.entries(agent).filter(([name]) => !Object.hasOwn(privateFields, name))
  return Object.fromEntries(shown) as OwnAgent
}
