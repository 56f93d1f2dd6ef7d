import type { AgentCard } from '@a2a-js/sdk'
import {
  type Client,
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
  ServiceParameters,
} from '@a2a-js/sdk/client'
import * as z from 'zod'
import { STOA_EXTENSION, X402_EXTENSION } from '../schema/a2a.ts'
import type { NamedAgent } from './agent-purchase.ts'
import { guardFetch } from './guarded-fetch.ts'
import { cannotRun } from './runtime.ts'

const CARD_TIMEOUT_MS = 20_000

export type A2aConnection = {
  client: Client
  serviceParameters: ServiceParameters
  /** Set if the agent wants payment. `named`: the agent of the market that its card claims to be. */
  paid: { named: NamedAgent | undefined } | undefined
}

/** Reads the card and connects. The token is sent only to the origin of the URL. @throws AgentError, network errors */
export async function connect(
  { url, token, outputBytesMax }: { url: string; token: string | undefined; outputBytesMax: number },
  fetchIt: typeof fetch,
): Promise<A2aConnection> {
  const ask = askOnly(new URL(url), token, guardFetch(fetchIt, outputBytesMax))

  const legacyCompat = { enabled: true }
  const resolver = new DefaultAgentCardResolver({ fetchImpl: withinLimit(ask), legacyCompat })
  const base = `${url.replace(/\/+$/, '')}/`
  const card = url.endsWith('.json')
    ? await resolver.resolve(url, '')
    : await resolver
        .resolve(base, '.well-known/agent-card.json')
        .catch((first: unknown) => resolver.resolve(base, '.well-known/agent.json').catch(() => Promise.reject(first)))
  const { origin } = new URL(url)
  const supportedInterfaces = card.supportedInterfaces.filter((one) => URL.parse(one.url)?.origin === origin)
  if (supportedInterfaces.length === 0) {
    const named = card.supportedInterfaces.map((one) => URL.parse(one.url)?.origin ?? 'no URL')
    const said = `the card at ${origin} leads to ${[...new Set(named)].join(', ')}: write that address into agents.yaml`
    throw cannotRun('the agent behind this one cannot be reached', { cause: new Error(said) })
  }
  const transports = [
    new JsonRpcTransportFactory({ fetchImpl: ask, legacyCompat }),
    new RestTransportFactory({ fetchImpl: ask, legacyCompat }),
  ]
  // A paid agent states its price only to clients that support the x402 extension.
  const mayAsk = card.capabilities?.extensions?.some(({ uri }) => uri === X402_EXTENSION) === true
  const serviceParameters = ServiceParameters.create((parameters) => {
    if (mayAsk) parameters['A2A-Extensions'] = X402_EXTENSION
  })
  const client = await new ClientFactory({ transports }).createFromAgentCard({ ...card, supportedInterfaces })
  return { client, serviceParameters, paid: paidOf(card) }
}

const StoaAgent = z.object({
  agentId: z.string().min(1).max(256),
  peerId: z.string().min(1).max(128),
  price: z.object({ atomic: z.string().regex(/^[0-9]{1,30}$/), network: z.string().min(1).max(64) }),
  payTo: z.string().max(64).optional(),
})

/** Reads the payment terms from a card. A card with two Stoa extensions names no agent. */
function paidOf({ capabilities }: AgentCard): A2aConnection['paid'] {
  const extensions = capabilities?.extensions ?? []
  const stoa = extensions.filter(({ uri }) => uri === STOA_EXTENSION)
  const parsed = stoa.length === 1 ? StoaAgent.safeParse(stoa[0]!.params) : undefined
  const wantsX402 = extensions.some(({ uri, required }) => uri === X402_EXTENSION && required)
  if (parsed?.success !== true) return wantsX402 ? { named: undefined } : undefined
  const { agentId, peerId, price, payTo } = parsed.data
  if (!wantsX402 && BigInt(price.atomic) === 0n) return undefined
  return { named: { agentId, peerId, payTo, network: price.network } }
}

/** Limits the time to read the card, because all runs wait for it and a server may never end its answer. */
function withinLimit(ask: typeof fetch): typeof fetch {
  return (input, init) => ask(input, { ...init, signal: AbortSignal.timeout(CARD_TIMEOUT_MS) })
}

function askOnly({ origin }: URL, token: string | undefined, guarded: typeof fetch): typeof fetch {
  return (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input)
    if (url.origin !== origin) throw new Error(`${url.origin} is not asked: the agent is at ${origin}`)
    const headers = new Headers(init?.headers)
    if (token !== undefined) headers.set('authorization', `Bearer ${token}`)
    return guarded(url, { ...init, headers })
  }
}
