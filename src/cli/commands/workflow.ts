import { countText } from '../../config/values.ts'
import { defined } from '../../lib/defined.ts'
import { type WorkflowQuote, type WorkflowRecord, type WorkflowStep, workflowStatuses } from '../../schema/workflow.ts'
import { type Context, command, flag, option, type ValuesOf } from '../command.ts'
import { exitCodes } from '../exit-code.ts'
import { moneyNode } from '../node-access/remote-node.ts'
import type { RemoteNode } from '../parts.ts'
import {
  age,
  exitCodeOfEnd,
  oneOf,
  pageOptions,
  paidText,
  printList,
  table,
  tellMore,
  waitForEnd,
  withDeadline,
  writeOutput,
} from '../text/market-text.ts'
import { columns, printableLine } from '../text/terminal-text.ts'
import { keyOption } from './task.ts'
import { readWorkflow, withAgentIds, workflowOptions } from './workflow-body.ts'

const TIMEOUT_SECONDS = 3600
const STEP_LENGTH = 20
/** An error says at its end what to do. */
const ERROR_LENGTH = 1000
const WORKFLOW = {
  name: 'id',
  description: 'id of the workflow from `stoa workflow list`',
  missing: 'the id of the workflow is missing: `stoa workflow list` lists the ids',
}
const createOptions = {
  ...workflowOptions,
  dryRun: flag('--dry-run', 'show the cost of each step and the total; run and pay nothing'),
  ...keyOption('workflow'),
} as const
const details =
  'A chain is a list of agents. A file can describe any order of steps, limits, retries and fallback sellers (docs/workflows.md). The node pays nothing if the workflow names an unknown agent, if steps wait for each other, or if a limit is below a listed price.'

export const workflowCreate = command({
  name: 'workflow create',
  summary: 'Start a workflow of several agents in the background',
  details,
  examples: [
    'stoa workflow create --agent-id abc… --agent-id def… --input "…" --budget 0.10',
    'stoa workflow create --file report.json --dry-run',
    'stoa workflow create --file report.json --json | jq -r .id',
  ],
  options: createOptions,
  async run(context, flags) {
    const begun = await begin(context, flags)
    if (begun !== undefined) tell(context, begun.workflow)
  },
})

export const workflowRun = command({
  name: 'workflow run',
  summary: 'Start a workflow and wait for its end; its output goes to standard output',
  details: `${details} Ctrl-C stops only the waiting. To stop the workflow, use stoa workflow cancel.`,
  examples: [
    'stoa workflow run --agent-id abc… --agent-id def… --input "…" --budget 0.10',
    'stoa workflow run --file report.json --input - < text.txt > report.txt',
    'stoa workflow run --file report.json --dry-run',
  ],
  options: {
    ...createOptions,
    timeout: option('--timeout <seconds>', `how long to wait (default: ${TIMEOUT_SECONDS})`, countText(86_400)),
  },
  async run(context, { timeout = TIMEOUT_SECONDS, ...flags }) {
    const begun = await begin(context, flags)
    return begun === undefined ? exitCodes.done : await follow(context, begun.node, begun.workflow, timeout)
  },
})

type CreateFlags = ValuesOf<typeof createOptions> & { dataDir?: string | undefined; json?: boolean | undefined }

/** Creates the workflow. With `--dry-run`, only shows its cost and returns undefined. */
async function begin(
  context: Context,
  { dryRun, idempotencyKey, dataDir, json: _, ...given }: CreateFlags,
): Promise<{ node: RemoteNode; workflow: WorkflowRecord } | undefined> {
  const described = await readWorkflow(context, given)
  const node = await moneyNode(context, { dataDir })
  const { signal } = context.io
  const body = given.file === undefined ? await withAgentIds(node, described, { signal }) : described
  if (dryRun !== true)
    return { node, workflow: await node.createWorkflow(body, { signal, ...defined({ idempotencyKey }) }) }
  tellQuote(context, await node.quoteWorkflow(body, { signal }))
  return undefined
}

export const workflowList = command({
  name: 'workflow list',
  summary: 'List the workflows of the running node, newest first',
  examples: ['stoa workflow list', 'stoa workflow list --status running --json'],
  options: {
    status: option('--status <status>', `only these: ${workflowStatuses.join(', ')}`, oneOf(workflowStatuses)),
    ...pageOptions('workflows'),
  },
  async run(context, { status, limit, cursor, ...flags }) {
    const node = await moneyNode(context, flags)
    const { items, next } = await node.workflows({ status, limit, cursor }, { signal: context.io.signal })
    const now = context.parts.clock.now()
    printList(context, items, {
      none: 'no workflows',
      headings: ['WORKFLOW', 'STATUS', 'DONE', 'USDC', 'HELD', 'AGE', 'NAME'],
      cells: ({ id, status, steps, paid, held, updated_at, name }) => [
        printableLine(id, 36),
        status,
        `${steps.filter((step) => step.status === 'completed').length}/${steps.length}`,
        paid,
        held,
        age(updated_at, now),
        printableLine(name ?? ''),
      ],
    })
    tellMore(context, 'stoa workflow list', next)
  },
})

export const workflowShow = command({
  name: 'workflow show',
  summary: 'Show a workflow: its steps, their costs and their results',
  examples: ['stoa workflow show 7e7d1f3c-…', 'stoa workflow show 7e7d1f3c-… --json | jq -r .output'],
  argument: WORKFLOW,
  async run(context, flags, id) {
    const node = await moneyNode(context, flags)
    const workflow = await node.workflow(id, { signal: context.io.signal })
    if (context.json) context.printJson(workflow)
    else show(context, workflow)
  },
})

export const workflowCancel = command({
  name: 'workflow cancel',
  summary: 'Cancel a workflow; the sellers of running steps stop too',
  details: 'No further step starts. If the seller of a running step was paid all the same, the step keeps its result.',
  examples: ['stoa workflow cancel 7e7d1f3c-…'],
  argument: WORKFLOW,
  async run(context, flags, id) {
    const node = await moneyNode(context, flags)
    return tell(context, await node.cancelWorkflow(id, { signal: context.io.signal }))
  },
})

/** Reports each step as it changes, then writes the output. Returns the exit status for the workflow's outcome. */
async function follow(context: Context, node: RemoteNode, begun: WorkflowRecord, timeout: number): Promise<number> {
  const told = new Map<string, string>()
  const seen = ({ steps }: WorkflowRecord) => {
    for (const step of steps) {
      if (context.json || step.status === 'pending' || told.get(step.id) === step.status) continue
      told.set(step.id, step.status)
      context.tell(stepLine(step))
    }
  }
  if (!context.json) context.tell(`started workflow ${begun.id}; estimated cost ${begun.estimate} USDC`)
  const late = `the workflow did not end within ${timeout} s; it continues; see stoa workflow show ${begun.id}`
  const ended = await withDeadline(context, { seconds: timeout, late }, (signal) =>
    waitForEnd((options) => node.workflow(begun.id, { ...options, waitSeconds: 1 }), signal, seen),
  )
  if (context.json) context.printJson(ended)
  else if (ended.status === 'completed') writeOutputs(context, ended)
  if (!context.json) context.tell(context.style.stderr.dim(summary(ended)))
  return exitCodeOfEnd(ended)
}

/**
 * Writes the workflow's output. Without a single one, writes the output of every step on which no other step depends.
 */
function writeOutputs(context: Context, { output, steps }: WorkflowRecord): void {
  if (output !== undefined) {
    writeOutput(context, output)
    return
  }
  for (const { id, output: text } of steps.filter(
    (step) => !steps.some((other) => other.depends_on.includes(step.id)),
  )) {
    context.print(`## ${printableLine(id)}`)
    writeOutput(context, text ?? '')
    context.print()
  }
}

function tell(context: Context, workflow: WorkflowRecord): void {
  context.printResult(workflow, summary(workflow))
}

function tellQuote(context: Context, quote: WorkflowQuote): void {
  const rows = quote.steps.map(({ id, price, local, fallback, name }) => [
    printableLine(id, STEP_LENGTH),
    local ? 'own' : price,
    fallback.map((agent) => agent.price).join(' '),
    printableLine(name),
  ])
  const budget = quote.budget === undefined ? 'no budget is set' : `the budget is ${quote.budget} USDC`
  const most = quote.total_max === quote.total ? '' : `, at most ${quote.total_max} USDC with fallbacks`
  const total = `total ${quote.total} USDC${most}; ${budget}; nothing was run or paid`
  context.printResult(quote, [...table(['STEP', 'USDC', 'FALLBACK', 'AGENT'], rows, context), total])
}

function summary({ id, status, error, ...sums }: WorkflowRecord): string {
  const why = error === undefined ? '' : ` at ${error.step_id ?? 'a step'}: ${error.message}`
  return printableLine(`workflow ${id} ${status === 'failed' ? status : `is ${status}`}${why}; ${sumsText(sums)}`, 600)
}

function sumsText({ paid, held, not_charged }: Pick<WorkflowRecord, 'paid' | 'held' | 'not_charged'>): string {
  return `${paid} USDC paid, ${held} held${not_charged === '0' ? '' : `, ${not_charged} not charged`}`
}

function stepLine({ id, status, error }: WorkflowStep): string {
  return printableLine(`  ${id}: ${status}${error === undefined ? '' : `: ${error.message}`}`, 400)
}

function show(context: Context, workflow: WorkflowRecord): void {
  const { bold } = context.style.stdout
  const { id, name, status, estimate, budget, created_at, updated_at, steps, error } = workflow
  const rows = [
    ['Workflow', id],
    ...(name === undefined ? [] : [['Name', name]]),
    ['Status', error === undefined ? status : `${status}: ${error.message}`],
    [
      'Cost',
      `${sumsText(workflow)}, estimated at ${estimate} USDC, ${budget === undefined ? 'no budget' : `budget ${budget} USDC`}`,
    ],
    ['Created', created_at],
    ['Changed', updated_at],
  ]
  context.print(columns(rows.map(([title = '', text = '']) => [bold(title), printableLine(text, ERROR_LENGTH)])))
  context.print()
  const lines = steps.map((step) => [
    printableLine(step.id, STEP_LENGTH),
    step.status,
    paidText(step.payment),
    step.url === undefined ? printableLine(step.agent_id, 10) : printableLine(new URL(step.url).host, 32),
    step.error === undefined
      ? printableLine(step.depends_on.length > 0 ? `after ${step.depends_on.join(', ')}` : '')
      : printableLine(step.error.message, ERROR_LENGTH),
  ])
  context.print(table(['STEP', 'STATUS', 'USDC', 'AGENT', ''], lines, context, { wraps: true }))
  if (workflow.output === undefined) return
  context.print()
  writeOutput(context, workflow.output)
}
