import * as z from 'zod'
import { checkTokenVariable } from '../../agents/providers.ts'
import { addNewAgentsToFile, agentsText, nameTaken, readAgentsFile } from '../../config/agents-yaml.ts'
import type { Config } from '../../config/config.ts'
import type { Secrets } from '../../config/secrets.ts'
import { reasonOf } from '../../lib/errors.ts'
import { patientFetch } from '../../lib/http.ts'
import { AgentDefinition, priceOf } from '../../schema/agent.ts'
import { dataFile, openDataDir } from '../../store/data-dir.ts'
import { type Context, command } from '../command.ts'
import { inspectAgents } from '../commands/agent-notices.ts'
import { sayTold, tellNode, toldExitCode, toldFields } from '../commands/agent-reload.ts'
import { CliError, exitCodes, UsageError } from '../exit-code.ts'
import { agentPriceText, printable, printableLine } from '../text/terminal-text.ts'
import { findService } from './find-service.ts'
import { chosenOffers, listed, type Planned, planned } from './plan.ts'
import { type SellFlags, sellOptions } from './sell-options.ts'
import type { Service } from './service.ts'
import { targetOf } from './target.ts'
import { type Trial, tryOut } from './trial.ts'

/** Characters of a result that are shown. */
const OUTPUT_SHOWN_MAX = 600
const UNSOLD_SHOWN_MAX = 10

export const sell = command({
  name: 'sell',
  local: true,
  takesProgram: true,
  summary:
    'Make agents of a service that exists: an A2A agent, an OpenAPI document, an MCP server, a model server or a URL',
  details:
    'Finds out what the target is and says so, tests each agent with a task, and writes the agents into agents.yaml. A node that runs on the data directory sells them at once. Each tool of an MCP server and each operation of an OpenAPI document is an agent of its own. The words after -- start an MCP server that is a program.',
  examples: [
    'stoa sell https://tools.example/mcp',
    'stoa sell https://api.example/openapi.json --operation getForecast --price 0.01 --api-key-env WEATHER_KEY --yes',
    'stoa sell --tool read_text_file --price 0.001 --sample \'{"path":"/srv/documents/a.txt"}\' --yes -- npx -y @modelcontextprotocol/server-filesystem /srv/documents',
    'stoa sell https://agents.example/.well-known/agent-card.json --name Front --price 0.05',
    'stoa sell http://127.0.0.1:8000/v1 --model Qwen/Qwen3-8B --price 0.001 --dry-run',
  ],
  options: sellOptions,
  argument: { name: 'target', description: 'a URL, or an OpenAPI document as a file', isOptional: true },
  async run(context, flags, given) {
    const target = await targetOf(given, context.program)
    const { config, secrets } = await context.loadConfig({ dataDir: flags.dataDir })
    const asks = asksOf(context, flags)
    const token = tokenOf(context, flags, secrets)
    const deps = { fetch: patientFetch, readEnv: (name: string) => secrets.env(name), signal: context.io.signal }
    const service = await findService(target, { as: flags.as, server: flags.server, token }, deps)
    tellService(context, service)
    const plans = asks ? await (await import('./asked.ts')).askedPlans(service, flags) : plansOf(service, flags)
    if (plans === undefined) return exitCodes.interrupted
    await refuseTaken(config, plans)
    if (flags.dryRun === true) {
      await printEntries(context, plans)
      return exitCodes.done
    }
    const trials = await tryAll(context, { plans, asks, flags, config, secrets })
    if (trials === undefined) return exitCodes.interrupted
    return store(context, { plans, trials, service, config, secrets })
  },
})

/** True if questions are asked. @throws UsageError if there is nobody to ask */
function asksOf({ io, json }: Context, flags: SellFlags): boolean {
  if (flags.yes === true || flags.dryRun === true) return false
  if (io.stdin.isTty && io.stdout.isTty && !json) return true
  throw new UsageError(
    'there is no terminal to ask on: add --yes and give the rest as flags, or --dry-run (stoa sell --help)',
  )
}

/** The key of the service, which goes to the host of the target only. @throws UsageError */
function tokenOf({ redactor }: Context, { apiKeyEnv, as }: SellFlags, secrets: Secrets): string | undefined {
  if (apiKeyEnv === undefined) return undefined
  if (!/^[A-Z][A-Z0-9_]{0,127}$/.test(apiKeyEnv)) {
    // Not shown: some people write the key itself here.
    throw new UsageError('--api-key-env: the value is not the NAME of a variable, such as WEATHER_KEY')
  }
  if (as !== 'openai') refuseForeign(apiKeyEnv)
  const token = secrets.env(apiKeyEnv)?.trim()
  if (token === undefined || token === '')
    throw new UsageError(`--api-key-env: ${apiKeyEnv} is not set: set it here and where the node starts`)
  redactor.add(token)
  return token
}

/** A key of the node, or of a provider of models, goes to no service. @throws UsageError */
function refuseForeign(variable: string): void {
  try {
    checkTokenVariable('--api-key-env', variable)
  } catch (error) {
    throw new UsageError(reasonOf(error))
  }
}

function tellService({ tell, style }: Context, { what, notes, offers, unsold }: Service): void {
  tell(`found ${printableLine(what, 300)}`)
  for (const note of notes) tell(style.stderr.dim(printableLine(note, 600)))
  if (unsold.length > 0)
    tell(style.stderr.yellow(`${unsold.length} of ${unsold.length + offers.length} cannot be sold:`))
  for (const { key, problem } of unsold.slice(0, UNSOLD_SHOWN_MAX))
    tell(`  ${printableLine(key, 60)}: ${printableLine(problem, 200)}`)
}

/** Without questions, the flags say everything. @throws UsageError */
function plansOf(service: Service, flags: SellFlags): Planned[] {
  const offers = chosenOffers(service, flags)
  const flag = { mcp: '--tool', openapi: '--operation', openai: '--model', a2a: '', http: '' }[service.kind]
  if (offers === undefined) throw new UsageError(`choose with ${flag}, or give --all: ${listed(service.offers)}`)
  if (service.server !== undefined) {
    throw new UsageError(
      `the document sends calls to ${service.server}, another host than its own: give --server ${service.server.split(',')[0]} if that is right`,
    )
  }
  return planned(offers, flags)
}

/** Before anything runs. The file is read again when it is written. */
async function refuseTaken({ dataDir }: Config, plans: readonly Planned[]): Promise<void> {
  const path = dataFile(dataDir, 'agents')
  const taken = new Set((await readAgentsFile(path)).map(({ name }) => name.normalize('NFC')))
  const same = plans.find(({ definition }) => taken.has(definition.name.normalize('NFC')))
  if (same !== undefined) throw new UsageError(nameTaken(path, same.definition.name))
}

async function printEntries(context: Context, plans: readonly Planned[]): Promise<void> {
  const definitions = plans.map(({ definition }) => definition)
  if (context.json) context.printJson({ agents: definitions.map((one) => z.encode(AgentDefinition, one)) })
  else context.io.stdout.write(await agentsText(definitions))
}

type Tested = { plans: readonly Planned[]; asks: boolean; flags: SellFlags; config: Config; secrets: Secrets }

/** Tests each agent. @returns undefined if the seller leaves. @throws CliError for one that fails, without questions */
async function tryAll(context: Context, { plans, asks, flags, config, secrets }: Tested): Promise<Trial[] | undefined> {
  const deps = { fetch: patientFetch, secrets, dataDir: config.dataDir, signal: context.io.signal }
  const trials: Trial[] = []
  for (const plan of plans) {
    const task = flags.test === false ? undefined : await taskFor(plan, { asks, flags })
    const trial: Trial =
      typeof task === 'string' ? await tryOut(plan.definition, task, deps) : skipped(flags, task?.problem)
    tellTrial(context, plan, trial)
    trials.push(trial)
  }
  const failed = trials.filter(({ state }) => state === 'failed').length
  if (!asks) {
    if (failed > 0)
      throw new CliError(
        'FAILED',
        `${failed} of ${plans.length} test runs failed: nothing was written. --no-test lists agents without a test`,
      )
    return trials
  }
  const { confirmListing } = await import('./asked.ts')
  return (await confirmListing(plans.length, failed)) ? trials : undefined
}

function skipped({ test }: SellFlags, problem = 'it has no example: give --sample'): Trial {
  return { state: 'skipped', problem: test === false ? '--no-test' : problem }
}

async function taskFor({ offer, sample }: Planned, { asks, flags }: Pick<Tested, 'asks' | 'flags'>) {
  if (asks) return (await import('./asked.ts')).askedTask(offer, sample, flags.testChanges === true)
  const isGiven = flags.sample !== undefined && sample !== offer.sample
  if (sample === undefined || offer.isReadOnly || flags.testChanges === true) return sample
  const problem = `it may change something: to run it, give ${isGiven ? '' : '--sample and '}--test-changes`
  return { problem }
}

function tellTrial({ tell, style }: Context, { definition }: Planned, trial: Trial): void {
  const name = printableLine(definition.name, 80)
  if (trial.state === 'skipped') tell(style.stderr.yellow(`${name} was not tested: ${trial.problem}`))
  else if (trial.state === 'failed') {
    tell(style.stderr.red(`${name} failed with ${printableLine(trial.task, 200)}: ${trial.problem}`))
  } else {
    const cut = trial.output.length > OUTPUT_SHOWN_MAX ? `\n… (${trial.output.length} characters)` : ''
    tell(`${name} answered ${printableLine(trial.task, 200)} in ${trial.ms} ms:`)
    tell(style.stderr.dim(`${printable(trial.output.slice(0, OUTPUT_SHOWN_MAX))}${cut}`))
  }
}

type Stored = {
  plans: readonly Planned[]
  trials: readonly Trial[]
  service: Service
  config: Config
  secrets: Secrets
}

/** Writes the agents, and lets a running node sell them. @returns the exit code */
async function store(context: Context, { plans, trials, service, config, secrets }: Stored): Promise<number> {
  const definitions = plans.map(({ definition }) => definition)
  await openDataDir(config.dataDir)
  const path = dataFile(config.dataDir, 'agents')
  await addNewAgentsToFile(path, definitions)
  const told = await tellNode(context, config, secrets)
  if (context.json) {
    const { kind, what } = service
    const tests = trials.map((trial, index) => ({ name: definitions[index]!.name, ...trial }))
    const agents = definitions.map((one) => z.encode(AgentDefinition, one))
    context.printJson({ service: { kind, what }, agents, tests, file: path, ...(await toldFields(told)) })
    return toldExitCode(told)
  }
  for (const definition of definitions) {
    const price = agentPriceText({ ...definition, price: priceOf(definition) })
    context.print(`added ${printableLine(definition.name)} (${price}) to ${path}`)
  }
  const lacking = plans.some(({ offer, definition }) => offer.needsKey && definition.api_key_env === undefined)
  if (lacking)
    context.tell(
      context.style.stderr.yellow(
        'the service wants a key: write api_key_env: NAME into the entries, and set that variable',
      ),
    )
  const notices = told.state === 'taken' ? [] : await inspectAgents(definitions, secrets, config.dataDir)
  for (const { definition, text } of notices)
    context.tell(context.style.stderr.yellow(`${printableLine(definition.name)}: ${printableLine(text, 300)}`))
  sayTold(context, told)
  return toldExitCode(told)
}
