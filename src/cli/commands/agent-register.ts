import * as z from 'zod'
import { UsdcText } from '../../config/values.ts'
import { Listing } from '../../schema/listing.ts'
import { command, option, repeated } from '../command.ts'
import { remoteNode } from '../node-access/remote-node.ts'
import { differsText } from '../text/differs-text.ts'
import { agentPriceText, printableLine } from '../text/terminal-text.ts'
import { agentOptions, imageOption, readDefinition, streamingOption } from './agent-config.ts'
import { modelOptions, readModelOptions } from './model-options.ts'
import { pricingOptions, readPricing } from './pricing-options.ts'

export const agentRegister = command({
  name: 'agent register',
  summary: 'Add an agent to the running node: list it now and store it in agents.yaml',
  details: 'Use stoa agent config add instead if no node is running, or if the agent runs a program on this machine.',
  examples: [
    'stoa agent register --name Echo --description "Repeats the task." --price 0 --model builtin/echo',
    'stoa agent register --name Writer --description "Writes prose." --per-1k-output-tokens 0.002 --charge-max 0.02',
    'stoa agent register --name Translator --description "Translate the task into French." --price 0.01 --tag french',
  ],
  options: {
    ...agentOptions,
    // This command has no port option, so -p means the price, as in the original node.
    price: option('-p, --price <usdc>', 'price of one task in USDC, at most 6 decimals; 0 means free', UsdcText),
    ...pricingOptions,
    ...modelOptions,
    tag: repeated('--tag <tag>', 'a word that searches match; may be repeated', z.array(z.string())),
    image: imageOption,
    streaming: streamingOption,
  },
  async run(context, { tag, ...flags }) {
    const definition = readDefinition({ ...flags, ...readModelOptions(flags), pricing: readPricing(flags), tags: tag })
    const node = await remoteNode(context, flags)
    const { differs_at: places, ...listing } = await node.registerAgent(definition, { signal: context.io.signal })
    const what = `${printableLine(listing.name)} is on the market for ${agentPriceText(listing)}: ${listing.id}`
    const shown = { ...z.encode(Listing, listing), ...(places !== undefined && { differs_at: places }) }
    context.printResult(shown, what)
    const differs = differsText(listing.name, places)
    if (differs !== undefined && !context.json) context.tell(context.style.stderr.yellow(differs))
  },
})
