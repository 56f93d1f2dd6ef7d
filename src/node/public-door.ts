import type { Config } from '../config/config.ts'
import type { PublicListener } from '../http/public/public-listener.ts'
import type { Meters } from '../lib/meters.ts'
import { DoorSales } from '../protocols/doors/door-sales.ts'
import { type AgentText, DoorTerms } from '../protocols/doors/terms.ts'
import type { X402ServerDeps } from '../protocols/x402/exchange.ts'
import type { Foundation } from './foundation.ts'
import type { Selling } from './selling.ts'

type PublicDoorDeps = Pick<Foundation, 'clock' | 'logger' | 'asset' | 'wallet'> & {
  meters: Pick<Meters, 'count'>
  selling: Pick<Selling, 'registry'> & { x402: X402ServerDeps }
}

/** The listener for strangers, if the operator has opened one. Its parts load only then. */
export async function createPublicDoor(config: Config, deps: PublicDoorDeps): Promise<PublicListener | undefined> {
  const { host, port, url, trustedProxies } = config.public
  if (port === undefined) return undefined
  const [{ createPublicListener }, { createAgentSale }, { createSiteReader }, { PublicLimits, publicLimits }] =
    await Promise.all([
      import('../http/public/public-listener.ts'),
      import('../http/public/agent-sale.ts'),
      import('../http/public/client-site.ts'),
      import('../http/public/public-limits.ts'),
    ])
  const { clock, logger, asset, selling, meters } = deps
  const { registry, x402: sales } = selling
  const doorSales = new DoorSales(sales)
  const signer = sales.receiptSigner
  const agentSale = createAgentSale({
    ...{ sales, doorSales, signer },
    terms: new DoorTerms({ clock, asset, payTo: sales.payTo, signer }),
    publicUrl: () => listener.url,
    textOf: (id) => textOf(registry.get(id)?.definition),
  })
  /** Agents that cannot be called now are left out, as on the market, and those that are sold on channels only. */
  function index(): object {
    const agents = registry.list().flatMap(({ id, definition, lacks }) => {
      if (definition.paused === true || lacks !== undefined || definition.price === undefined) return []
      const { name, description, tags } = textOf(definition)!
      const place = { url: `${listener.url}/x402/${id}`, method: 'POST' }
      return { agent_id: id, name, description, tags, price_atomic: definition.price.toString(), ...place }
    })
    return { network: asset.network, asset: asset.address, agents }
  }
  const listener: PublicListener = createPublicListener(
    { host, port, url, drainMs: config.seller.drainSeconds * 1000 },
    {
      ...{ logger, meters, agentSale, doorSales, index },
      limits: new PublicLimits(publicLimits, { clock }),
      sites: createSiteReader(trustedProxies),
    },
  )
  return listener
}

function textOf(definition: { name: string; description: string; tags?: readonly string[] | undefined } | undefined) {
  if (definition === undefined) return undefined
  const { name, description, tags = [] } = definition
  return { name, description, tags } satisfies AgentText
}
