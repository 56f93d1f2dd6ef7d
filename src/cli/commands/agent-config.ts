import * as z from 'zod'
import { addAgentToFile, readAgentsFile, removeAgentFromFile } from '../../config/agents-yaml.ts'
import { countText, UsdcText } from '../../config/values.ts'
import { AGENT_TIMEOUT_SECONDS, AgentDefinition, ownRuns, priceOf, streamingModes } from '../../schema/agent.ts'
import { formatPrice } from '../../schema/amount.ts'
import { RUN_SECONDS_MAX } from '../../schema/limits.ts'
import { Pricing } from '../../schema/pricing.ts'
import { dataFile, openDataDir } from '../../store/data-dir.ts'
import { command, option, repeated } from '../command.ts'
import { CliError, UsageError } from '../exit-code.ts'
import { agentPriceText, columns, printableLine } from '../text/terminal-text.ts'
import { inspectAgents } from './agent-notices.ts'
import { sayTold, tellNode, toldExitCode, toldFields } from './agent-reload.ts'
import { instructionsFileOption, modelOptions, readModelOptions } from './model-options.ts'
import { pricingOptions, readPricing } from './pricing-options.ts'
import { placedWords } from './program-words.ts'

const Text = z.string()

/** Flags that describe an agent. Shared with `stoa start`. */
export const agentOptions = {
  name: option('-n, --name <name>', 'name of the agent; a node has one agent of each name', Text),
  description: option(
    '-d, --description <text>',
    'what the agent does; public. Without --instructions, the model gets this text as its instructions',
    Text,
  ),
  price: option('-r, --price <usdc>', 'price of one task in USDC, at most 6 decimals; 0 means free', UsdcText),
  model: option(
    '--model <model>',
    'what the agent runs on: provider/model or builtin/<name> (default: the best model that has a key)',
    Text,
  ),
} as const

export const maxPriceOption = option(
  '--max-price <usdc>',
  'of an A2A agent: the most that one run may pay the remote agent',
  UsdcText,
)

export const imageOption = option(
  '--image <url>',
  'https URL of a picture, used in the registration file on the chain (stoa agent register-onchain)',
  Text,
)

export const streamingOption = option(
  '--streaming <mode>',
  `when buyers see the output of a paid agent that is still working: ${streamingModes.join(', ')}`,
  z.enum(streamingModes, `one of ${streamingModes.join(', ')}`),
)

export const agentConfigAdd = command({
  name: 'agent config add',
  local: true,
  summary: 'Add an agent to agents.yaml, or replace the agent with that name',
  details:
    'A node that runs on the data directory takes the change at once. Another takes it at its next start. docs/agents-yaml.md lists all fields. If --command names a file in the current directory, its full path is stored.',
  examples: [
    'stoa agent config add --name Translator --description "Translate the task into French." --price 0.01 --model openai/gpt-5-mini',
    'stoa agent config add --name Poet --description "Writes poems." --price 0.05 --instructions-file poet.md --temperature 1.2',
    'stoa agent config add --name Echo --description "Repeats the task." --price 0 --model builtin/echo',
    'stoa agent config add --name Front --description "Translates into French." --price 0.05 --a2a https://agents.example/a2a/abc --max-price 0.03',
    'stoa agent config add --name Linter --description "Lints Python." --price 0.002 --command python3 --command lint.py',
  ],
  options: {
    ...agentOptions,
    ...pricingOptions,
    ...modelOptions,
    instructionsFile: instructionsFileOption,
    command: repeated(
      '--command <word>',
      'run a program instead of a model; repeat the option for each argument. The program reads the task from standard input',
      z.array(Text),
    ),
    a2a: option('--a2a <url>', 'use a remote A2A agent instead of a model: its URL, or the URL of its card', Text),
    maxPrice: maxPriceOption,
    tag: repeated('--tag <tag>', 'a word that searches match; may be repeated', z.array(Text)),
    image: imageOption,
    streaming: streamingOption,
    runTimeout: option(
      '--run-timeout <seconds>',
      `the longest time for one task (default: ${AGENT_TIMEOUT_SECONDS})`,
      countText(RUN_SECONDS_MAX),
    ),
    apiKeyEnv: option(
      '--api-key-env <NAME>',
      'NAME of the variable that holds the model key, never the key itself',
      Text,
    ),
  },
  async run(context, { command: argv, tag, maxPrice, runTimeout, apiKeyEnv, ...flags }) {
    const definition = readDefinition({
      ...flags,
      ...readModelOptions(flags),
      pricing: readPricing(flags),
      ...{ tags: tag, timeout_seconds: runTimeout, api_key_env: apiKeyEnv },
      ...(argv !== undefined && { command: await placedWords(argv) }),
      ...(maxPrice !== undefined && { max_price: priceNumber(maxPrice) }),
    })
    const { config, secrets } = await context.loadConfig(flags)
    const [notice] = await inspectAgents([definition], secrets, config.dataDir)
    if (notice?.broken === true && definition.model?.startsWith('builtin/') === true) {
      throw new UsageError(`--model: ${notice.text}`)
    }
    // A missing key may be set where the node starts. A missing program or file will be missing there too.
    if (notice?.lacks === 'part') throw new UsageError(notice.text)
    await openDataDir(config.dataDir)
    const path = dataFile(config.dataDir, 'agents')
    const replaced = (await readAgentsFile(path)).some(({ name }) => name === definition.name)
    await addAgentToFile(path, definition)
    const told = await tellNode(context, config, secrets)
    if (context.json) {
      const agent = z.encode(AgentDefinition, definition)
      context.printJson({ agent, file: path, replaced, ...(await toldFields(told)) })
    } else {
      context.print(
        `${replaced ? 'replaced' : 'added'} ${printableLine(definition.name)} (${agentPriceText({ ...definition, price: priceOf(definition) })}) in ${path}`,
      )
      // The node may start with keys that this shell does not have, so the agent is stored anyway. A node that has taken
      // the agent says itself what it lacks.
      if (notice !== undefined && told.state !== 'taken')
        context.tell(context.style.stderr.yellow(printableLine(notice.text)))
      sayTold(context, told)
    }
    return toldExitCode(told)
  },
})

export const agentConfigList = command({
  name: 'agent config list',
  local: true,
  summary: 'List the agents of agents.yaml',
  examples: ['stoa agent config list', 'stoa agent config list --json'],
  async run(context, flags) {
    const { config } = await context.loadConfig(flags)
    const path = dataFile(config.dataDir, 'agents')
    const agents = await readAgentsFile(path)
    if (context.json) context.printJson(agents.map((agent) => z.encode(AgentDefinition, agent)))
    else if (agents.length === 0) context.print(`${path} has no agents: add one with stoa agent config add`)
    else {
      const rows = agents.map((agent) => [
        context.style.stdout.bold(printableLine(agent.name, 40)),
        agentPriceText({ ...agent, price: priceOf(agent) }),
        printableLine(runsText(agent), 40),
        context.style.stdout.dim(printableLine(agent.description, 60)),
      ])
      context.print(columns(rows))
    }
  },
})

export const agentConfigRemove = command({
  name: 'agent config remove',
  local: true,
  summary: 'Remove an agent from agents.yaml',
  examples: ['stoa agent config remove Translator'],
  argument: { name: 'name', isOptional: true, description: 'the agent to remove' },
  options: { name: option('--name <name>', 'the same as <name>', Text) },
  async run(context, { name: named, ...flags }, given) {
    const name = given ?? named
    if (name === undefined) {
      throw new UsageError('the name of the agent is missing: `stoa agent config list` lists the names')
    }
    if (named !== undefined && named !== name) {
      throw new UsageError(
        `one agent at a time: --name ${printableLine(named, 80)} is another than ${printableLine(name, 80)}`,
      )
    }
    const { config, secrets } = await context.loadConfig(flags)
    const path = dataFile(config.dataDir, 'agents')
    if (!(await removeAgentFromFile(path, name.trim()))) {
      throw new CliError(
        'UNKNOWN_AGENT',
        `${path} has no agent named ${JSON.stringify(printableLine(name, 80))}: stoa agent config list lists the names`,
      )
    }
    const told = await tellNode(context, config, secrets)
    if (context.json) context.printJson({ removed: name.trim(), file: path, ...(await toldFields(told)) })
    else {
      context.print(`removed ${printableLine(name)} from ${path}`)
      sayTold(context, told)
    }
    return toldExitCode(told)
  },
})

/** Builds an agent's definition from flags. @throws UsageError that names the flag */
export function readDefinition(given: {
  name?: string | undefined
  description?: string | undefined
  price?: bigint | undefined
  pricing?: Pricing | undefined
  model?: string | undefined
  [field: string]: unknown
}): AgentDefinition {
  const isMissing = (field: string) => given[field] === undefined && (field !== 'price' || given.pricing === undefined)
  const missing = (['name', 'description', 'price'] as const).find(isMissing)
  if (missing !== undefined) {
    throw new UsageError(
      `--${missing} is missing: an agent needs --name, --description and --price (0 for a free agent)`,
    )
  }
  const fields = Object.fromEntries(Object.keys(AgentDefinition.shape).map((field) => [field, given[field]]))
  const price = given.price === undefined ? {} : { price: priceNumber(given.price) }
  const pricing = given.pricing && { pricing: z.encode(Pricing, given.pricing) }
  const parsed = AgentDefinition.safeParse(JSON.parse(JSON.stringify({ ...fields, ...price, ...pricing })))
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const flag = String(issue?.path[0] ?? 'name')
    .replace('tags', 'tag')
    .replace('timeout_seconds', 'run-timeout')
    .replaceAll('_', '-')
  throw new UsageError(`--${flag}: ${issue?.message ?? 'is not valid'}`)
}

function priceNumber(price: bigint): number {
  return Number(formatPrice(price))
}

/** What an agent runs. A URL is not shown, because it may contain a key. */
function runsText(agent: AgentDefinition): string {
  return (
    agent.model ?? agent.command?.join(' ') ?? ownRuns.find((name) => agent[name] !== undefined) ?? '(default model)'
  )
}
