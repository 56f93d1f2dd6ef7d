import { readFile } from 'node:fs/promises'
import * as z from 'zod'
import { UsdcText } from '../../config/values.ts'
import { defined } from '../../lib/defined.ts'
import { reasonOf } from '../../lib/errors.ts'
import { formatPrice } from '../../schema/amount.ts'
import type { CreateWorkflowBody } from '../../schema/workflow.ts'
import { type Context, option, repeated, type ValuesOf } from '../command.ts'
import { UsageError } from '../exit-code.ts'
import { agentIdOf } from '../node-access/references.ts'
import type { RemoteNode } from '../parts.ts'
import { readAll, readTask, taskOptions } from './task.ts'

export const workflowOptions = {
  file: option(
    '--file <path>',
    'a JSON file that describes the workflow (docs/workflows.md); - reads standard input',
    z.string(),
  ),
  agentId: repeated(
    '--agent-id <id>',
    'id or name of an agent; repeat the option for a chain. Each agent gets the output of the agent before it',
    z.array(z.string()),
  ),
  chain: option('--chain <ids>', 'the same as --agent-id, separated by commas', z.string()),
  ...taskOptions,
  name: option('--name <name>', 'name of the workflow', z.string()),
  budget: option('--budget <usdc>', 'the most that the whole workflow may cost', UsdcText),
} as const

type WorkflowFlags = ValuesOf<typeof workflowOptions>

/** Builds the request body from the flags. Flags override values in the file. */
export async function readWorkflow(context: Context, given: WorkflowFlags): Promise<CreateWorkflowBody> {
  const { file, chain, task, input, name, budget } = given
  const agentId = given.agentId ?? chain?.split(',').flatMap((id) => id.trim() || [])
  if (file === undefined && agentId === undefined) {
    throw new UsageError('the workflow is missing: give a --file, or a chain of agents with --agent-id')
  }
  if (file !== undefined && agentId !== undefined)
    throw new UsageError('--file and --agent-id cannot be used together: give one of them')
  const described = file === undefined ? { agent_ids: agentId } : await readBody(context, file)
  const hasTask = task !== undefined || input !== undefined
  const text = hasTask || !('input' in described) ? await readTask(context.io, { task, input }) : undefined
  const more = defined({ input: text, name, budget: budget === undefined ? undefined : formatPrice(budget) })
  // The node validates the definition, because it also knows the agents.
  return { ...described, ...more } as CreateWorkflowBody
}

/** The agents of a chain may go by their names, as elsewhere; those of a file are for the node. */
export async function withAgentIds(
  node: RemoteNode,
  body: CreateWorkflowBody,
  { signal }: { signal: AbortSignal },
): Promise<CreateWorkflowBody> {
  const ids: string[] = []
  for (const given of body.agent_ids ?? []) ids.push(await agentIdOf(node, given, { signal }))
  return { ...body, agent_ids: ids }
}

async function readBody({ io }: Context, file: string): Promise<object> {
  const text = file === '-' ? await readAll(io) : await readFile(file, 'utf8').catch(refuseFile(file))
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch (error) {
    throw new UsageError(`--file: ${file} is not JSON: ${reasonOf(error)}`)
  }
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body
  throw new UsageError(`--file: ${file} is not a JSON object`)
}

function refuseFile(file: string) {
  return (error: unknown): never => {
    throw new UsageError(`--file: ${file} cannot be read: ${reasonOf(error)}`)
  }
}
