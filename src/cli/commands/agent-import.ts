import * as z from 'zod'
import { Listing } from '../../schema/listing.ts'
import { command, commonOptions, option } from '../command.ts'
import { exitCodes, UsageError } from '../exit-code.ts'
import { moneyNode, remoteNode } from '../node-access/remote-node.ts'
import { priceText, printableLine } from '../text/terminal-text.ts'

export const agentImport = command({
  name: 'agent import',
  summary: 'Name an agent of a seller that lists nothing here, to buy from it',
  details:
    'It is known on this node only, unsigned and marked. The seller is asked for its price at once, unless the agent is free or ' +
    '--pay-to is given; another price, network or asset than expected is refused. stoa agent forget takes it off again.',
  examples: [
    'stoa agent import --peer /ip4/203.0.113.7/tcp/4001/p2p/12D3KooW… --agent-id did:key:z6Mk… --price 0.05',
    'stoa agent import --peer 12D3KooW… --agent-id summary --price 0 --name "Their summary"',
  ],
  options: {
    peer: option('--peer <address>', 'the seller: a multiaddr that ends in /p2p/<peer id>, or its peer id', z.string()),
    agentId: option('--agent-id <id>', 'what the seller calls the agent', z.string()),
    price: option('--price <usdc>', 'what one task costs, in USDC; 0 is free', z.string()),
    name: option('--name <name>', 'what to call it here', z.string()),
    description: option('--description <text>', 'what it does', z.string()),
    payTo: option('--pay-to <address>', 'the account to pay, instead of the one that the seller names', z.string()),
    ...commonOptions,
  },
  async run(context, { peer, agentId, price, name, description, payTo, ...flags }) {
    if (peer === undefined || agentId === undefined || price === undefined) {
      throw new UsageError('give --peer, --agent-id and --price: see stoa agent import --help')
    }
    const node = await moneyNode(context, flags)
    const agent = {
      ...{ peer, agent_id: agentId, price },
      ...(name !== undefined && { name }),
      ...(description !== undefined && { description }),
      ...(payTo !== undefined && { pay_to: payTo as `0x${string}` }),
    }
    const listing = await node.importAgent(agent, { signal: context.io.signal })
    if (context.json) context.printJson(z.encode(Listing, listing))
    else {
      const paid = listing.price === 0n ? '' : `, paid to ${listing.pay_to}`
      context.print(`${printableLine(listing.name)} is imported for ${priceText(listing.price)}${paid}: ${listing.id}`)
      context.tell('No listing of its seller vouches for it: what you know of it is what you typed.')
    }
    return exitCodes.done
  },
})

export const agentForget = command({
  name: 'agent forget',
  summary: 'Forget an imported agent',
  examples: ['stoa agent forget 2jz4…'],
  options: commonOptions,
  argument: { name: 'id', description: 'the imported agent, as `stoa agent discover` shows it' },
  async run(context, flags, id) {
    if (id === undefined) throw new UsageError('which agent? `stoa agent discover` shows them')
    const node = await remoteNode(context, flags)
    const listing = await node.removeImport(id, { signal: context.io.signal })
    if (context.json) context.printJson(z.encode(Listing, listing))
    else context.print(`${printableLine(listing.name)} is forgotten`)
    return exitCodes.done
  },
})
