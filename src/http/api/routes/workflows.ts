import type { WorkflowsApi } from '../../../buying/workflow/workflows.ts'
import { WaitQuery } from '../../../schema/page.ts'
import {
  CreateWorkflow,
  CreateWorkflowQuery,
  WorkflowParams,
  WorkflowQuote,
  WorkflowRecord,
  WorkflowRecords,
  WorkflowsQuery,
} from '../../../schema/workflow.ts'
import { type Operation, operation, paged, Reply } from '../operation.ts'

const read = { method: 'GET', tags: ['workflows'], access: 'private', scope: 'read' } as const
const change = { tags: ['workflows'], access: 'private', scope: 'execute', response: WorkflowRecord } as const

export function workflowRoutes(workflows: WorkflowsApi): Operation[] {
  return [listWorkflows(workflows), createWorkflow(workflows), getWorkflow(workflows), cancelWorkflow(workflows)]
}

const listWorkflows = (workflows: WorkflowsApi) =>
  operation({
    ...read,
    id: 'listWorkflows',
    path: '/workflows',
    summary: 'Workflows, newest first',
    description: 'Without inputs and outputs, which may be long. `GET /workflows/{id}` has them.',
    query: WorkflowsQuery,
    response: WorkflowRecords,
    handler: async ({ query: { q: text, ...query }, caller }) =>
      paged(await workflows.list({ ...query, text }, caller)),
  })

const createWorkflow = (workflows: WorkflowsApi) =>
  operation({
    ...change,
    id: 'createWorkflow',
    method: 'POST',
    path: '/workflows',
    summary: 'Run a workflow of several agents',
    description:
      'The steps run in the background, each as an order, at the same time if none depends on the other. Unknown ' +
      'agents, circles, and limits below the listed prices are refused before anything is paid. With `dry_run=true` ' +
      'nothing is stored, run or paid: the answer is the expected cost.',
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
    status: 201,
    also: { status: 200, response: WorkflowQuote, description: 'The expected cost, for `dry_run=true`' },
    errors: ['WORKFLOW_INVALID', 'NETWORK_MISMATCH', 'INPUT_TOO_LARGE', 'WORKFLOWS_TOO_MANY', 'STORE_WRITE_FAILED'],
    location: ({ id }) => `/workflows/${id}`,
    handler: ({ query, body, caller, idempotencyKey }) =>
      query.dry_run
        ? new Reply(workflows.quote(body), { status: 200 })
        : workflows.create(body, caller, idempotencyKey),
  })

const getWorkflow = (workflows: WorkflowsApi) =>
  operation({
    ...read,
    id: 'getWorkflow',
    path: '/workflows/{id}',
    summary: 'One workflow',
    params: WorkflowParams,
    query: WaitQuery,
    response: WorkflowRecord,
    errors: ['UNKNOWN_WORKFLOW'],
    handler: ({ params, query, signal, caller }) =>
      workflows.settled(params.id, { limitMs: query.wait * 1000, signal }, caller),
  })

const cancelWorkflow = (workflows: WorkflowsApi) =>
  operation({
    ...change,
    id: 'cancelWorkflow',
    method: 'DELETE',
    path: '/workflows/{id}',
    summary: 'Cancel a workflow',
    description:
      'No further step begins. The node also stops running steps at their sellers, who then charge nothing. If ' +
      'the seller of a running step was paid all the same, the step keeps its result, even after this answer.',
    params: WorkflowParams,
    errors: ['UNKNOWN_WORKFLOW', 'WORKFLOW_FINAL', 'STORE_WRITE_FAILED'],
    handler: ({ params, caller }) => workflows.cancel(params.id, caller),
  })
