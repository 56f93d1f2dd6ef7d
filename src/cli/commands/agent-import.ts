import * as z from 'zod'
import { UsdcText } from '../../config/values.ts'
import { defined } from '../../lib/defined.ts'
import { formatPrice } from '../../schema/amount.ts'
import { Listing } from '../../schema/listing.ts'
import type { Hex } from '../../schema/primitives.ts'
import { command, option } from '../command.ts'
import { UsageError } from '../exit-code.ts'
import { moneyNode, remoteNode } from '../node-access/remote-node.ts'
import { priceText, printableLine } from '../text/terminal-text.ts'

export const agentImport = command({
  name: 'agent import',
  summary: 'Add an agent by hand, to buy from a seller that publishes no listing',
  details:
    'Only this node knows the agent, and shows it as imported. The command asks the seller for its price, unless the agent is free or ' +
    '--pay-to is given. It refuses a different price, network or asset. stoa agent forget removes the agent.',
  examples: [
    'stoa agent import --peer /ip4/203.0.113.7/tcp/4001/p2p/12D3KooW… --agent-id did:key:z6Mk… --price 0.05',
    'stoa agent import --peer 12D3KooW… --agent-id summary --price 0 --name "Their summary"',
  ],
  options: {
    peer: option('--peer <address>', 'the seller: a multiaddr that ends in /p2p/<peer id>, or its peer id', z.string()),
    agentId: option('--agent-id <id>', 'the id that the seller uses for the agent', z.string()),
    price: option('--price <usdc>', 'price of one task in USDC; 0 means free', UsdcText),
    name: option('--name <name>', 'name of the agent on this node', z.string()),
    description: option('--description <text>', 'what the agent does', z.string()),
    payTo: option('--pay-to <address>', 'the account to pay (default: the account that the seller names)', z.string()),
  },
  async run(context, { peer, agentId, price, name, description, payTo, ...flags }) {
    if (peer === undefined || agentId === undefined || price === undefined) {
      throw new UsageError('--peer, --agent-id and --price are required: see stoa agent import --help')
    }
    const { peerAt } = await import('../../p2p/multiaddrs.ts')
    if (peerAt(peer) === undefined) {
      throw new UsageError(
        `--peer: ${JSON.stringify(printableLine(peer, 80))} is not valid: expected a peer id, or a multiaddr that ends in /p2p/<peer id>`,
      )
    }
    const node = await moneyNode(context, flags)
    const agent = {
      ...{ peer, agent_id: agentId, price: formatPrice(price) },
      ...defined({ name, description, pay_to: payTo as Hex | undefined }),
    }
    const listing = await node.importAgent(agent, { signal: context.io.signal })
    if (context.json) context.printJson(z.encode(Listing, listing))
    else {
      const paid = listing.price === 0n ? '' : `, paid to ${listing.pay_to}`
      context.print(`imported ${printableLine(listing.name)} (${priceText(listing.price)}${paid}): ${listing.id}`)
      context.tell('No signed listing confirms this agent. Stoa shows only what you entered.')
    }
  },
})

export const agentForget = command({
  name: 'agent forget',
  summary: 'Remove an imported agent',
  examples: ['stoa agent forget 2jz4…'],
  argument: {
    name: 'id',
    description: 'id of the imported agent, from `stoa agent discover`',
    missing: 'the id of the agent is missing: `stoa agent discover` lists the ids',
  },
  async run(context, flags, id) {
    const node = await remoteNode(context, flags)
    const listing = await node.removeImport(id, { signal: context.io.signal })
    context.printResult(z.encode(Listing, listing), `removed ${printableLine(listing.name)}`)
  },
})
