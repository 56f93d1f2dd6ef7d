import { MarketError } from '../../listings/market-error.ts'
import type { StepDefinition, WorkflowDefinition } from '../../schema/workflow.ts'
import type { StepPlan } from '../../store/workflow-row.ts'
import { expectedText } from '../web/first-request.ts'
import { parseTemplate, stepsIn, TemplateError } from './template.ts'

type Issue = { path: string; message: string }
/** The ids of all steps, and the faults found so far. */
type PlanChecks = { ids: ReadonlySet<string>; issues: Issue[] }

/**
 * Resolves a definition step by step: the dependencies and the input of each step.
 *
 * A step depends on every step in its `depends_on` and in its template. If no step has `depends_on`, each step depends
 * on the step before it.
 *
 * @throws MarketError WORKFLOW_INVALID with every fault found
 */
export function planSteps({ steps }: WorkflowDefinition): StepPlan[] {
  const issues: Issue[] = []
  const ids = new Set<string>()
  for (const [index, { id }] of steps.entries()) {
    if (ids.has(id)) issues.push({ path: `steps[${index}].id`, message: `${id} is the id of an earlier step too` })
    ids.add(id)
  }
  const isChain = steps.every(({ dependsOn }) => dependsOn === undefined)
  const plans = steps.map((step, index) => {
    const before = isChain && index > 0 ? [steps[index - 1]!.id] : []
    return planStep(step, { path: `steps[${index}]`, before }, { ids, issues })
  })
  if (issues.length === 0) issues.push(...findCycle(plans))
  if (issues.length > 0) throw invalid(issues)
  return plans
}

export function invalid(
  issues: readonly Issue[],
  code: 'WORKFLOW_INVALID' | 'NETWORK_MISMATCH' = 'WORKFLOW_INVALID',
): MarketError {
  const said = issues.slice(0, 3).map(({ path, message }) => `${path} ${message}`)
  return new MarketError(code, said.join('; '), { issues })
}

function planStep(
  { id, agentId, web, fallback, maxPrice, retries, rebuy, channel, ...step }: StepDefinition,
  { path, before }: { path: string; before: readonly string[] },
  plan: PlanChecks,
): StepPlan {
  const { ids, issues } = plan
  const named = step.dependsOn ?? before
  for (const [index, dependency] of named.entries()) {
    const at = `${path}.depends_on[${index}]`
    if (dependency === id) issues.push({ path: at, message: 'is the step itself' })
    else if (!ids.has(dependency)) issues.push({ path: at, message: `names no step: ${dependency}` })
    else if (named.indexOf(dependency) !== index) issues.push({ path: at, message: `names ${dependency} twice` })
  }
  const input = step.input ?? defaultInput(named)
  const needed = readSteps(input, { path: `${path}.input`, id }, plan)
  const agents = [agentId, ...fallback]
  for (const [index, agent] of fallback.entries()) {
    if (agents.indexOf(agent) !== index + 1) {
      issues.push({ path: `${path}.fallback[${index}]`, message: 'is asked already' })
    }
  }
  return {
    id,
    agents,
    ...(web && { web: { ...web, expected: expectedText(web.expected ?? {}) } }),
    input,
    dependsOn: [...new Set([...named, ...needed])],
    maxPrice,
    retries,
    ...(rebuy && { rebuy }),
    ...(channel !== undefined && { channel }),
  }
}

/** The input of a step that states none: the outputs it depends on, or the workflow's input. */
function defaultInput(dependsOn: readonly string[]): string {
  return dependsOn.length === 0 ? '{{input}}' : dependsOn.map((id) => `{{steps.${id}.output}}`).join('\n\n')
}

function readSteps(input: string, { path, id }: { path: string; id: string }, { ids, issues }: PlanChecks): string[] {
  try {
    const steps = stepsIn(parseTemplate(input))
    for (const step of steps) {
      if (step === id) issues.push({ path, message: 'needs the output of the step itself' })
      else if (!ids.has(step)) issues.push({ path, message: `needs the output of ${step}, which is no step` })
    }
    return steps
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error
    issues.push({ path, message: error.message })
    return []
  }
}

/** Removes steps without open dependencies until none is left to remove. The remaining steps form or follow a cycle. */
function findCycle(plans: readonly StepPlan[]): Issue[] {
  let left = plans
  for (;;) {
    const waiting = new Set(left.map(({ id }) => id))
    const next = left.filter(({ dependsOn }) => dependsOn.some((id) => waiting.has(id)))
    if (next.length === left.length) break
    left = next
  }
  if (left.length === 0) return []
  const circle = left.map(({ id }) => id)
  return [{ path: 'steps', message: `wait for each other in a circle: ${circle.slice(0, 10).join(', ')}` }]
}
