import * as z from 'zod'
import { UsdcText } from '../../config/values.ts'
import { type AgentDefinition, privateFields } from '../../schema/agent.ts'
import { Listing } from '../../schema/listing.ts'
import { command, commonOptions, option, repeated } from '../command.ts'
import { exitCodes } from '../exit-code.ts'
import { remoteNode } from '../node-access/remote-node.ts'
import { priceText, printableLine } from '../text/terminal-text.ts'
import { agentOptions, imageOption, readDefinition, streamingOption } from './agent-config.ts'
import { modelOptions, readModelOptions } from './model-options.ts'

export const agentRegister = command({
  name: 'agent register',
  summary: 'Put an agent on the market at once, at the running node, and keep it in agents.yaml',
  details:
    'Without a running node: stoa agent config add. An agent that runs a program of this machine can only be added there.',
  examples: [
    'stoa agent register --name Echo --description "Says it again." --price 0 --model builtin/echo',
    'stoa agent register --name Translator --description "Translate the task into French." --price 0.01 --tag french',
  ],
  options: {
    ...agentOptions,
    // This command has no port option, so -p means the price, as in the original node.
    price: option('-p, --price <usdc>', 'USDC for one task, at most 6 decimals; 0 is free', UsdcText),
    ...modelOptions,
    tag: repeated('--tag <tag>', 'a word to find it by; may be repeated', z.array(z.string())),
    image: imageOption,
    streaming: streamingOption,
    ...commonOptions,
  },
  async run(context, { tag, ...flags }) {
    const { name, description, price, model, tags, image, streaming, ...rest } = readDefinition({
      ...flags,
      ...readModelOptions(flags),
      ...(tag !== undefined && { tags: tag }),
    })
    const node = await remoteNode(context, flags)
    const definition = {
      name,
      description,
      price,
      ...(model !== undefined && { model }),
      ...(tags !== undefined && { tags }),
      ...(image !== undefined && { image }),
      ...(streaming !== undefined && { streaming }),
      ...privateOf(rest),
    }
    const listing = await node.registerAgent(definition, { signal: context.io.signal })
    if (context.json) context.printJson(z.encode(Listing, listing))
    else context.print(`${printableLine(listing.name)} is on the market for ${priceText(listing.price)}: ${listing.id}`)
    return exitCodes.done
  },
})

function privateOf(definition: Partial<AgentDefinition>): Pick<AgentDefinition, keyof typeof privateFields> {
  return Object.fromEntries(Object.entries(definition).filter(([name]) => Object.hasOwn(privateFields, name)))
}
