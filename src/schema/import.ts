import * as z from 'zod'
import { AgentDescription, AgentName } from './agent.ts'
import { Price, PriceText } from './amount.ts'
import { Listing } from './listing.ts'
import { Address } from './primitives.ts'

/** The body of POST /imports: an agent whose seller publishes no listing here. Strict, like every body that spends. */
export const ImportAgent = z
  .strictObject({
    peer: z.string().min(1).max(512).meta({
      description: 'multiaddr of the seller that ends in /p2p/<peer id>, or only the peer id',
    }),
    agent_id: z.string().min(1).max(256).meta({ description: 'id that the seller uses for the agent' }),
    price: z.union([Price, PriceText]),
    name: AgentName.optional(),
    description: AgentDescription.optional(),
    pay_to: Address.optional().meta({ description: 'account to pay; default: the account that the seller names' }),
  })
  .meta({ id: 'ImportAgent', description: 'An agent of a seller that publishes no listing.' })
export type ImportAgent = z.output<typeof ImportAgent>

/** The stored form of an imported listing. */
export const ImportedListing = Listing.omit({ price: true, local: true, buyable: true }).extend({
  imported: z.object({ agent_id: z.string() }),
})
export type ImportedListing = z.infer<typeof ImportedListing>
