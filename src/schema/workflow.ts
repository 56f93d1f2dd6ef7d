import * as z from 'zod'
import { Price, PriceText } from './amount.ts'
import { AgentRef, Task } from './api.ts'
import { ChannelWish } from './channel.ts'
import { CallError, RecordedPayment } from './order.ts'
import { seekFields } from './page.ts'
import { expectedOf, refuseGiven, type WebWish, webFields } from './web-purchase.ts'

/** Steps of one workflow. Bounds its record and the load of one request. */
export const STEPS_MAX = 64
/** Further attempts of a step with the same agent. Each one may cost its price. */
export const RETRIES_MAX = 10
/** Fallback agents of a step. */
export const FALLBACKS_MAX = 8

/** Limit of a step's own text in UTF-16 units. The contents of placeholders do not count. */
export const TEMPLATE_LENGTH_MAX = 256 * 1024

const StepId = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, _ or -')
  .meta({ description: 'id of the step for `depends_on` and `{{steps.<id>.output}}`; default: `step-1` …' })
const Cap = z.union([Price, PriceText]).optional()

const StepBody = z
  .strictObject({
    id: StepId.optional(),
    agent_id: AgentRef.optional().meta({ description: 'the whole id of the agent; or give `url`' }),
    url: webFields.url.meta({
      description: 'address of an x402 seller over HTTP, instead of `agent_id`; the step then needs `max_price`',
    }),
    method: webFields.method.meta({
      description: 'with `url`: the method; with GET and DELETE nothing of `input` is sent',
    }),
    headers: webFields.headers.meta({ description: 'with `url`: headers of the request. They stay in the ledger' }),
    expected: webFields.expected,
    input: z
      .string()
      .min(1, 'is empty')
      .max(TEMPLATE_LENGTH_MAX)
      .refine((text) => text.isWellFormed(), 'is not well-formed Unicode (a lone surrogate)')
      .optional()
      .meta({
        description:
          'the task; `{{input}}` and `{{steps.<id>.output}}` are replaced; default: the output of the steps that this ' +
          'step depends on, otherwise the input of the workflow. Write `\\{{` for a literal `{{`',
      }),
    depends_on: z.array(StepId).max(STEPS_MAX).optional().meta({
      description:
        'steps that must be completed first. If no step has `depends_on`, each step depends on the step before it',
    }),
    max_price: Cap.meta({ description: 'the most that one purchase for this step may cost, in USDC' }),
    retries: z.int().min(0).max(RETRIES_MAX).default(0).meta({
      description: 'how often to try again with the same agent after a temporary failure; each attempt is a new order',
    }),
    fallback: z
      .array(AgentRef)
      .max(FALLBACKS_MAX)
      .default([])
      .meta({ description: 'agents to use instead if the agent before fails, in this order' }),
    channel: ChannelWish.optional(),
    rebuy: z.boolean().optional().meta({
      description:
        'true: after a failure the step buys again even if the failed purchase is or may be paid, so the step may cost more than once',
    }),
  })
  .meta({ id: 'WorkflowStepDefinition' })

export type StepDefinition = {
  id: string
  /** The agent, or the URL of `web`. */
  agentId: string
  /** What is bought from an x402 seller over HTTP. Its task is the input of the step. */
  web?: Omit<WebWish, 'task' | 'body'> | undefined
  /** A template. */
  input: string | undefined
  dependsOn: readonly string[] | undefined
  /** In atomic units. */
  maxPrice: bigint | undefined
  retries: number
  fallback: readonly string[]
  /** True: a purchase that was or may have been charged is bought again. */
  rebuy?: boolean | undefined
  channel?: ChannelWish | undefined
}
/** The request of POST /workflows in a uniform form. The market decides whether it can run. */
export type WorkflowDefinition = {
  name: string | undefined
  input: string
  /** In atomic units. */
  budget: bigint | undefined
  steps: readonly StepDefinition[]
}

const AgentIds = z.array(AgentRef).min(1, 'has no agents').max(STEPS_MAX)

const WorkflowBody = z
  .strictObject({
    name: z
      .string()
      .trim()
      .min(1, 'is empty')
      .max(80, 'is longer than 80 characters')
      .refine((text) => text.isWellFormed(), 'is not well-formed Unicode (a lone surrogate)')
      .optional()
      .meta({ description: 'name of the workflow in lists' }),
    input: Task.meta({ description: 'value of `{{input}}`' }),
    steps: z.array(StepBody).min(1, 'has no steps').max(STEPS_MAX).optional().meta({
      description: 'the steps; give `steps` or `agent_ids`',
    }),
    agent_ids: AgentIds.optional().meta({
      description: 'a chain of agents; each agent gets the output of the agent before it',
    }),
    agentIds: AgentIds.optional().meta({ description: 'the same as `agent_ids`' }),
    budget: Cap.meta({ description: 'the most that the whole workflow may cost, in USDC' }),
  })
  .meta({
    id: 'CreateWorkflow',
    description: 'Give `steps`, or `agent_ids` for a chain.',
    anyOf: [{ required: ['steps'] }, { required: ['agent_ids'] }, { required: ['agentIds'] }],
  })
/** The body of POST /workflows (D20). Strict, like every body that spends. */
export const CreateWorkflow = WorkflowBody.transform(readDefinition)
export type CreateWorkflowBody = z.input<typeof CreateWorkflow>

/** Parses a workflow from its API form. @throws z.ZodError */
export function parseWorkflow(body: CreateWorkflowBody): WorkflowDefinition {
  return CreateWorkflow.parse(body)
}

function readDefinition(body: z.output<typeof WorkflowBody>, context: z.core.$RefinementCtx): WorkflowDefinition {
  const given = [body.steps, body.agent_ids, body.agentIds].filter((list) => list !== undefined)
  if (given.length !== 1) {
    const message = given.length === 0 ? 'is missing: give steps or agent_ids' : 'give only one of steps and agent_ids'
    context.addIssue({ code: 'custom', path: ['steps'], message })
  }
  const chain = (body.agent_ids ?? body.agentIds ?? []).map((agent_id) => ({ agent_id, retries: 0, fallback: [] }))
  const steps: z.output<typeof StepBody>[] = body.steps ?? chain
  return {
    name: body.name,
    input: body.input,
    budget: body.budget,
    steps: steps.map((step, index) => ({
      id: step.id ?? `step-${index + 1}`,
      ...soldAt(step, `step ${index + 1}`, context),
      input: step.input,
      dependsOn: step.depends_on,
      maxPrice: step.max_price,
      retries: step.retries,
      fallback: step.fallback,
      ...(step.rebuy === true && { rebuy: true }),
      ...(step.channel !== undefined && { channel: step.channel }),
    })),
  }
}

/** The agent or the URL of a step. */
function soldAt(step: z.output<typeof StepBody>, name: string, context: z.core.$RefinementCtx) {
  const { agent_id, url, method, headers, expected, channel, max_price } = step
  const refuse = (message: string) =>
    context.addIssue({ code: 'custom', path: ['steps'], message: `${name} ${message}` })
  if (url === undefined) {
    refuseGiven({ method, headers, expected }, `of ${name} needs url`, context)
    if (agent_id === undefined) refuse('has no agent_id and no url')
    return { agentId: agent_id ?? '' }
  }
  refuseGiven({ agent_id, channel }, `of ${name} does not go with url`, context)
  if (max_price === undefined) refuse('needs max_price: the price of a URL is known when it is asked')
  const web = { url, method, headers, ...(expected && { expected: expectedOf(expected) }) }
  return { agentId: url, web }
}

export const workflowStatuses = ['pending', 'running', 'completed', 'failed', 'canceled'] as const
export const WorkflowStatus = z
  .enum(workflowStatuses)
  .meta({ description: '`completed`, `failed` and `canceled` are final' })
export type WorkflowStatus = z.infer<typeof WorkflowStatus>
export const StepStatus = z
  .enum([...workflowStatuses, 'skipped'])
  .meta({ description: '`skipped`: never started, because another step failed or the workflow was canceled' })
export type StepStatus = z.infer<typeof StepStatus>

const amountText = z.string().meta({ description: 'USDC as decimal text' })

export const WorkflowStep = z
  .object({
    id: z.string(),
    agent_id: z.string().meta({
      description: 'the agent that runs the step: the first agent, or a fallback; for a URL, the URL without its query',
    }),
    url: z.string().optional().meta({ description: 'where the step buys from an x402 seller over HTTP' }),
    status: StepStatus,
    input: z.string().meta({ description: 'the template' }),
    depends_on: z.array(z.string()),
    max_price: amountText.optional(),
    retries: z.int(),
    fallback: z.array(z.string()),
    rebuy: z
      .boolean()
      .optional()
      .meta({ description: 'true: the step may buy again even if the failed purchase is or may be paid' }),
    channel: ChannelWish.optional().meta({ description: 'what is wanted of payment channels, if the step says so' }),
    price: amountText.meta({ description: 'listed price when the workflow was created' }),
    price_atomic: z.string(),
    order_ids: z.array(z.string()).meta({
      description: 'all orders of the step; only one of them is paid, except with `rebuy`. The last order counts',
    }),
    output: z.string().optional().meta({ description: 'data from another party, never to be trusted' }),
    error: CallError.optional().meta({
      description: 'why the step failed; for a running step, why the latest attempt failed',
    }),
    payment: RecordedPayment.optional(),
    started_at: z.string().optional(),
    ended_at: z.string().optional(),
  })
  .meta({ id: 'WorkflowStep' })
export type WorkflowStep = z.infer<typeof WorkflowStep>

/** A workflow and its progress (D20). */
export const WorkflowRecord = z
  .object({
    id: z.string(),
    name: z.string().optional(),
    status: WorkflowStatus,
    input: z.string().optional().meta({ description: 'absent in lists' }),
    output: z
      .string()
      .optional()
      .meta({ description: 'output of the last step, if there is only one last step; absent in lists' }),
    error: CallError.extend({ step_id: z.string().optional() }).optional(),
    budget: amountText.optional(),
    budget_atomic: z.string().optional(),
    estimate: amountText.meta({ description: 'sum of the listed prices when the workflow was created' }),
    estimate_atomic: z.string(),
    paid: amountText.meta({ description: 'the chain shows it' }),
    paid_atomic: z.string(),
    held: amountText.meta({ description: 'signed, and may still be charged' }),
    held_atomic: z.string(),
    not_charged: amountText.meta({ description: 'signed, and can no longer be charged' }),
    not_charged_atomic: z.string(),
    spent: amountText.meta({ description: '`paid` plus `held`; an older name' }),
    spent_atomic: z.string(),
    steps: z.array(WorkflowStep).meta({ description: 'without outputs in lists' }),
    created_at: z.string(),
    updated_at: z.string(),
  })
  .meta({ id: 'Workflow', description: 'A workflow and its progress.' })
export type WorkflowRecord = z.infer<typeof WorkflowRecord>
export const WorkflowRecords = z.array(WorkflowRecord)

const QuotedAgent = z.object({
  agent_id: z.string(),
  name: z.string(),
  seller_id: z.string(),
  local: z.boolean().meta({ description: 'true: an agent of this node, which costs nothing' }),
  price: amountText,
  price_atomic: z.string(),
})

/** What a workflow would cost (`?dry_run=true`): nothing is stored, run or paid. */
export const WorkflowQuote = z
  .object({
    dry_run: z.literal(true),
    budget: amountText.optional(),
    total: amountText.meta({ description: 'cost if the first agent of each step runs it' }),
    total_atomic: z.string(),
    total_max: amountText.meta({ description: 'cost if the most expensive agent of each step runs it' }),
    total_max_atomic: z.string(),
    steps: z.array(
      QuotedAgent.extend({
        id: z.string(),
        depends_on: z.array(z.string()),
        input: z.string(),
        max_price: amountText.optional(),
        fallback: z.array(QuotedAgent),
      }),
    ),
  })
  .meta({ id: 'WorkflowQuote', description: 'The cost of a workflow. Nothing was stored, run or paid.' })
export type WorkflowQuote = z.infer<typeof WorkflowQuote>

export const WorkflowRef = z.string().min(1).max(100).meta({ description: 'id of the workflow' })
export const WorkflowParams = z.strictObject({ id: WorkflowRef })
export const CreateWorkflowQuery = z.strictObject({
  dry_run: z
    .enum(['true', 'false'])
    .optional()
    .transform((text) => text === 'true')
    .meta({ description: 'true: return only the cost; store, run and pay nothing' }),
})
export const WorkflowsQuery = z.strictObject({
  status: WorkflowStatus.optional(),
  ...seekFields,
})
export type WorkflowsQuery = z.output<typeof WorkflowsQuery>
