import { privateFields } from '../../../schema/agent.ts'
import { AgentParams, type RegisterAgent } from '../../../schema/api.ts'
import { permits } from '../../../schema/caller.ts'
import {
  AvailableModels,
  OwnAgent,
  OwnAgents,
  TestAgent,
  TestResult,
  TryAgent,
  UpdateAgent,
} from '../../../schema/own-agent.ts'
import { type Operation, operation } from '../operation.ts'
import { refuseAgent } from './refuse-agent.ts'

export type OwnAgentRouteDeps = {
  ownAgents: {
    list(): OwnAgent[]
    update(id: string, change: UpdateAgent): Promise<OwnAgent>
    setPaused(id: string, paused: boolean): Promise<OwnAgent>
    remove(id: string): Promise<OwnAgent>
    test(id: string, task: string, signal: AbortSignal): Promise<TestResult>
    tryOut(agent: RegisterAgent, task: string, signal: AbortSignal): Promise<TestResult>
  }
  models(signal: AbortSignal): Promise<AvailableModels>
}

const row = { tags: ['own agents'], access: 'private', scope: 'admin', params: AgentParams, status: 200 } as const
const writing = ['UNKNOWN_AGENT', 'CONFIG_INVALID', 'STORE_WRITE_FAILED'] as const

export function ownAgentRoutes({ ownAgents, models }: OwnAgentRouteDeps): Operation[] {
  return [
    operation({
      id: 'listOwnAgents',
      method: 'GET',
      path: '/agents/own',
      summary: "This node's own agents, paused ones included",
      description: 'Instructions and parameters of models are shown to `admin` only.',
      tags: row.tags,
      access: row.access,
      scope: 'read',
      response: OwnAgents,
      status: 200,
      errors: [],
      handler: ({ caller }) =>
        permits(caller.scope, 'admin') ? ownAgents.list() : ownAgents.list().map(withoutPrivate),
    }),
    operation({
      ...row,
      id: 'updateAgent',
      method: 'PATCH',
      path: '/agents/{id}',
      summary: 'Change an own agent',
      description: 'Here, on the market and in agents.yaml. Tasks that run end as they began.',
      body: UpdateAgent,
      example: { price: 0.02 },
      response: OwnAgent,
      errors: [...writing, 'FIELD_NOT_ALLOWED'],
      handler: ({ params, body }) => ownAgents.update(params.id, body).catch(refuseAgent),
    }),
    operation({
      ...row,
      id: 'removeAgent',
      method: 'DELETE',
      path: '/agents/{id}',
      summary: 'Remove an own agent',
      description: 'Takes it off the market and out of agents.yaml. What it has earned and done is kept.',
      response: OwnAgent,
      errors: writing,
      handler: ({ params }) => ownAgents.remove(params.id).catch(refuseAgent),
    }),
    operation({
      ...row,
      id: 'pauseAgent',
      method: 'POST',
      repeatable: true,
      path: '/agents/{id}/pause',
      summary: 'Take an own agent off the market, and keep it',
      response: OwnAgent,
      errors: writing,
      handler: ({ params }) => ownAgents.setPaused(params.id, true).catch(refuseAgent),
    }),
    operation({
      ...row,
      id: 'resumeAgent',
      method: 'POST',
      repeatable: true,
      path: '/agents/{id}/resume',
      summary: 'Put a paused agent back on the market',
      response: OwnAgent,
      errors: writing,
      handler: ({ params }) => ownAgents.setPaused(params.id, false).catch(refuseAgent),
    }),
    operation({
      ...row,
      id: 'testAgent',
      method: 'POST',
      path: '/agents/{id}/test',
      summary: 'Run an own agent once, unpaid and unrecorded',
      body: TestAgent,
      example: { task: 'Summarize: …' },
      response: TestResult,
      errors: ['UNKNOWN_AGENT', 'AGENT_FAILED', 'AGENT_TIMEOUT', 'AGENT_NOT_RUNNABLE', 'INPUT_TOO_LARGE', 'OVERLOADED'],
      handler: ({ params, body, signal }) => ownAgents.test(params.id, body.task, signal),
    }),
    operation({
      id: 'tryAgent',
      method: 'POST',
      path: '/agents/try',
      summary: 'Run an agent once before it is registered',
      description: 'Unpaid and unrecorded. Nothing of it is kept, and nobody else sees it.',
      tags: row.tags,
      access: row.access,
      scope: 'admin',
      body: TryAgent,
      example: {
        agent: { name: 'Echo', description: 'Says it again.', price: 0, model: 'builtin/echo' },
        task: 'Hello',
      },
      response: TestResult,
      status: 200,
      errors: ['AGENT_FAILED', 'AGENT_TIMEOUT', 'AGENT_NOT_RUNNABLE', 'INPUT_TOO_LARGE', 'OVERLOADED'],
      handler: ({ body, signal }) => ownAgents.tryOut(body.agent, body.task, signal),
    }),
    operation({
      id: 'listModels',
      method: 'GET',
      path: '/models',
      summary: 'What an agent of this node can run on',
      description:
        'Asks the model servers whose key or address the node has, each for 5 s at most: those with an API like that of ' +
        'OpenAI. Others can be named by hand.',
      tags: row.tags,
      access: row.access,
      scope: 'admin',
      response: AvailableModels,
      status: 200,
      errors: [],
      handler: ({ signal }) => models(signal),
    }),
  ]
}

/** An agent without the fields that only its operator may see (D47). */
function withoutPrivate(agent: OwnAgent): OwnAgent {
  const shown = Object.entries(agent).filter(([name]) => !Object.hasOwn(privateFields, name))
  return Object.fromEntries(shown) as OwnAgent
}
