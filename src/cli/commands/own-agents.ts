import * as z from 'zod'
import type { Settings } from '../../config/settings.ts'
import { UsdcText } from '../../config/values.ts'
import { defined } from '../../lib/defined.ts'
import { CodedError } from '../../lib/errors.ts'
import { type OwnAgent, OwnAgent as OwnAgentSchema } from '../../schema/own-agent.ts'
import { type Command, type Context, command, option } from '../command.ts'
import { CliError, UsageError } from '../exit-code.ts'
import { moneyNode, remoteNode } from '../node-access/remote-node.ts'
import type { RemoteNode } from '../parts.ts'
import { differsText } from '../text/differs-text.ts'
import { printList, writeOutput } from '../text/market-text.ts'
import { agentPriceText, printableLine } from '../text/terminal-text.ts'
import { maxPriceOption, streamingOption } from './agent-config.ts'
import { modelOptions, readModelOptions } from './model-options.ts'
import { pricingOptions, readPricing } from './pricing-options.ts'
import { readTask, taskOptions } from './task.ts'

const AGENT = {
  name: 'agent',
  description: 'name or id from `stoa agent list`, or the start of the id',
  missing: 'the agent is missing: `stoa agent list` lists the names',
}

export const agentList = command({
  name: 'agent list',
  summary: 'List the agents that the running node sells, and what each has earned',
  examples: ['stoa agent list', 'stoa agent list --json'],
  async run(context, flags) {
    const node = await moneyNode(context, flags)
    const { signal } = context.io
    const [agents, { agents: sums }] = await Promise.all([node.ownAgents({ signal }), node.stats({}, { signal })])
    const earned = new Map(sums.map((sum) => [sum.agent_id, sum]))
    printList(context, agents, {
      none: 'no agents: add one with `stoa agent register`, or over the API',
      headings: ['AGENT', 'PRICE', 'STATE', 'CALLS', 'FAILED', 'EARNED', 'ID'],
      // The API takes whole ids only.
      wraps: true,
      cells: (agent) => {
        const { calls = 0, failed = 0, earned: sum = '0' } = earned.get(agent.id) ?? {}
        const state = stateText(agent)
        const sums = [`${calls}`, `${failed}`, `${sum} USDC`]
        return [printableLine(agent.name, 24), agentPriceText(agent), state, ...sums, agent.id]
      },
      json: agents.map((agent) => ({ ...z.encode(OwnAgentSchema, agent), stats: earned.get(agent.id) })),
    })
    for (const { name, notice, sold_elsewhere: isSold, differs_at: places } of context.json ? [] : agents) {
      if (notice !== undefined && !isSold) warn(context, printableLine(`${name}: ${notice}`))
      warn(context, differsText(name, places))
    }
  },
})

function warn(context: Context, text: string | undefined): void {
  if (text !== undefined) context.tell(context.style.stderr.yellow(text))
}

function stateText({ paused, runnable, listed, sold_elsewhere: isSold }: OwnAgent): string {
  if (paused) return 'paused'
  if (isSold) return 'on sale elsewhere'
  if (!runnable) return 'cannot run'
  return listed ? 'on sale' : 'not listed'
}

export const agentUpdate = command({
  name: 'agent update',
  summary: 'Change an agent of the running node: price, description or model',
  details:
    'The node publishes the change now and writes it to agents.yaml. Running tasks finish with the old settings.',
  examples: ['stoa agent update Translator --price 0.02', 'stoa agent update Translator --model openai/gpt-5-mini'],
  options: {
    price: option('--price <usdc>', 'price of one task in USDC', UsdcText),
    ...pricingOptions,
    maxPrice: maxPriceOption,
    description: option('--description <text>', 'what the agent does', z.string()),
    model: option('--model <model>', 'what the agent runs on', z.string()),
    streaming: streamingOption,
    ...modelOptions,
  },
  argument: AGENT,
  async run(context, { price, maxPrice, description, model, streaming, ...flags }, given) {
    const change = {
      ...readModelOptions(flags),
      ...defined({ price, pricing: readPricing(flags), max_price: maxPrice, description, model, streaming }),
    }
    if (Object.keys(change).length === 0) {
      const fields =
        '--price, --charge-max with rates, --max-price, --description, --instructions, --model or --streaming'
      throw new UsageError(`nothing to change: give at least one of ${fields}`)
    }
    const { node, agent } = await find(context, flags, given)
    return tell(context, await node.updateAgent(agent.id, change, { signal: context.io.signal }), 'changed')
  },
})

export const agentPause: Command = action(
  'pause',
  'Take an agent of the running node off the market, but keep it in agents.yaml',
)
export const agentResume: Command = action('resume', 'Put a paused agent back on the market')
export const agentRemove: Command = action('remove', 'Take an agent off the market and remove it from agents.yaml')

function action(verb: 'pause' | 'resume' | 'remove', summary: string): Command {
  return command({
    name: `agent ${verb}`,
    summary,
    examples: [`stoa agent ${verb} Translator`],
    argument: AGENT,
    async run(context, flags, given) {
      const { node, agent } = await find(context, flags, given)
      const done = await node[`${verb}Agent`](agent.id, { signal: context.io.signal })
      const resumed =
        done.notice === undefined || done.sold_elsewhere ? stateText(done) : `${stateText(done)}: ${done.notice}`
      return tell(context, done, { pause: 'paused', resume: resumed, remove: 'removed' }[verb])
    },
  })
}

export const agentTest = command({
  name: 'agent test',
  summary: 'Run an agent of the running node once, without payment or record',
  examples: ['stoa agent test Translator --task "Good morning."', 'stoa agent test Translator --task - < letter.txt'],
  options: { ...taskOptions },
  argument: AGENT,
  async run(context, { task, input, ...flags }, given) {
    const text = await readTask(context.io, { task, input })
    const { node, agent } = await find(context, flags, given)
    const result = await node.testAgent(agent.id, text, { signal: context.io.signal }).catch(sayWhere)
    if (context.json) context.printJson(result)
    else writeOutput(context, result.output)
  },
})

/** The error omits a program's output, because buyers read it too. This hint tells the operator where the output is. */
function sayWhere(error: unknown): never {
  const hasSaid = error instanceof CodedError && error.code === 'AGENT_FAILED'
  throw hasSaid ? new CodedError(error.code, `${error.message} (\`stoa logs\` shows its output)`) : error
}

type OwnAgentRef = { node: RemoteNode; agent: OwnAgent }

async function find(context: Context, flags: Settings, given: string): Promise<OwnAgentRef> {
  const node = await remoteNode(context, flags)
  const agents = await node.ownAgents({ signal: context.io.signal })
  const isCalledSo = ({ id, name }: OwnAgent) => id === given || name.normalize('NFC') === given.normalize('NFC')
  const begun = given.length < 4 ? [] : agents.filter(({ id }) => id.startsWith(given))
  const agent = agents.find(isCalledSo) ?? (begun.length === 1 ? begun[0] : undefined)
  if (agent !== undefined) return { node, agent }
  throw new CliError(
    'UNKNOWN_AGENT',
    `this node has no agent ${printableLine(given, 80)}: \`stoa agent list\` lists its agents`,
  )
}

function tell(context: Context, agent: OwnAgent, what: string): void {
  context.printResult(z.encode(OwnAgentSchema, agent), `${printableLine(agent.name)}: ${what}`)
  if (!context.json) warn(context, differsText(agent.name, agent.differs_at))
}
