import type { HostedAgent } from '../agents/hosted-agent.ts'
import { defined } from '../lib/defined.ts'
import type { OwnListing } from '../listings/replica.ts'
import type { Asset } from '../payments/assets.ts'
import { priceOf } from '../schema/agent.ts'
import { CHANNEL_SCHEME } from '../schema/channel.ts'
import { MARKETPLACE_PROTOCOL } from '../schema/marketplace.ts'
import type { Hex } from '../schema/primitives.ts'
import { X402_PROTOCOL } from '../schema/x402.ts'

/** When buyers see the output of an agent whose definition does not say. */
export const DEFAULT_STREAMING = 'owed_once_shown'

type Seller = { asset: Asset; payTo: Hex; sellerName?: string | undefined }

/** True if a call of the agent costs something. */
export function isPaid({ definition }: HostedAgent): boolean {
  return priceOf(definition) > 0n
}

/** What the market is told of an agent. */
export function listingOf(
  { id, definition, model, timeoutMs }: HostedAgent,
  { token_id, channel }: { token_id?: string | undefined; channel?: OwnListing['channel'] },
  { asset, payTo, sellerName }: Seller,
): OwnListing {
  const price = priceOf(definition)
  const free = price === 0n
  return {
    id,
    name: definition.name,
    description: definition.description,
    price_atomic: price,
    model,
    tags: definition.tags ?? [],
    protocols: free ? [MARKETPLACE_PROTOCOL, X402_PROTOCOL] : [X402_PROTOCOL],
    network: asset.network,
    asset: asset.address,
    pay_to: payTo,
    ...(token_id !== undefined && { token_id }),
    timeout_seconds: Math.ceil(timeoutMs / 1000),
    ...(!free && { streaming: definition.streaming ?? DEFAULT_STREAMING }),
    ...(channel !== undefined && { channel, ...defined({ pricing: definition.pricing }) }),
    ...(definition.price === undefined && { schemes: [CHANNEL_SCHEME] }),
    ...(sellerName !== undefined && { seller_name: sellerName }),
  }
}
