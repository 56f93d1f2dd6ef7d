import type { Caller } from '../../../schema/caller.ts'
import { type Page, WaitQuery } from '../../../schema/page.ts'
import {
  CreateWorkflow,
  CreateWorkflowQuery,
  type WorkflowDefinition,
  WorkflowParams,
  WorkflowQuote,
  WorkflowRecord,
  WorkflowRecords,
  WorkflowsQuery,
} from '../../../schema/workflow.ts'
import { type Operation, operation, paged, Reply } from '../operation.ts'

export type WorkflowRouteDeps = {
  workflows: {
    quote(definition: WorkflowDefinition): WorkflowQuote
    create(definition: WorkflowDefinition, caller: Caller, idempotencyKey?: string): Promise<WorkflowRecord>
    cancel(id: string, caller: Caller): Promise<WorkflowRecord>
    list(query: Omit<WorkflowsQuery, 'q'> & { text?: string | undefined }, caller: Caller): Page<WorkflowRecord>
    settled(id: string, options: { limitMs: number; signal: AbortSignal }, caller: Caller): Promise<WorkflowRecord>
  }
}

const tags = ['workflows']
const access = 'private'

export function workflowRoutes({ workflows }: WorkflowRouteDeps): Operation[] {
  return [
    operation({
      id: 'listWorkflows',
      method: 'GET',
      path: '/workflows',
      summary: 'Workflows, newest first',
      description: 'Without inputs and outputs, which may be long: those stand in each workflow of its own.',
      tags,
      access,
      scope: 'read',
      query: WorkflowsQuery,
      response: WorkflowRecords,
      status: 200,
      errors: [],
      handler: ({ query: { q: text, ...query }, caller }) => paged(workflows.list({ ...query, text }, caller)),
    }),
    operation({
      id: 'createWorkflow',
      method: 'POST',
      path: '/workflows',
      summary: 'Run a workflow of several agents',
      description:
        'Its steps run in the background, each as an order of its own, side by side where none depends on the other. ' +
        'Unknown agents, circles and limits that the listed prices already break are refused before anything is paid. ' +
        'With `dry_run=true` nothing is stored, run or paid: the answer is what it would cost.',
      tags,
      access,
      scope: 'execute',
      idempotent: true,
      query: CreateWorkflowQuery,
      body: CreateWorkflow,
      example: {
        name: 'Report',
        input: 'The text …',
        budget: '0.10',
        steps: [
          { id: 'summary', agent_id: 'q5v7gtn3jhb2kxw4', max_price: '0.05' },
          {
            id: 'translation',
            agent_id: 'mfra2yvtcqz6jx5d',
            input: 'Into French: {{steps.summary.output}}',
            depends_on: ['summary'],
            retries: 1,
          },
        ],
      },
      response: WorkflowRecord,
      status: 201,
      also: { status: 200, response: WorkflowQuote, description: 'What it would cost, for `dry_run=true`' },
      errors: ['WORKFLOW_INVALID', 'NETWORK_MISMATCH', 'INPUT_TOO_LARGE', 'WORKFLOWS_TOO_MANY', 'STORE_WRITE_FAILED'],
      location: ({ id }) => `/workflows/${id}`,
      handler: ({ query, body, caller, idempotencyKey }) =>
        query.dry_run
          ? new Reply(workflows.quote(body), { status: 200 })
          : workflows.create(body, caller, idempotencyKey),
    }),
    operation({
      id: 'getWorkflow',
      method: 'GET',
      path: '/workflows/{id}',
      summary: 'One workflow',
      tags,
      access,
      scope: 'read',
      params: WorkflowParams,
      query: WaitQuery,
      response: WorkflowRecord,
      status: 200,
      errors: ['UNKNOWN_WORKFLOW'],
      handler({ params, query, signal, caller }) {
        return workflows.settled(params.id, { limitMs: query.wait * 1000, signal }, caller)
      },
    }),
    operation({
      id: 'cancelWorkflow',
      method: 'DELETE',
      path: '/workflows/{id}',
      summary: 'Cancel a workflow',
      description:
        'Nothing more begins; what runs is aborted at its sellers too, who then charge nothing. What turns out to be ' +
        'paid for is kept with its step, even after this has answered.',
      tags,
      access,
      scope: 'execute',
      params: WorkflowParams,
      response: WorkflowRecord,
      status: 200,
      errors: ['UNKNOWN_WORKFLOW', 'WORKFLOW_FINAL', 'STORE_WRITE_FAILED'],
      handler: ({ params, caller }) => workflows.cancel(params.id, caller),
    }),
  ]
}
