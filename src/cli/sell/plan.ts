import type { AgentDefinition } from '../../schema/agent.ts'
import { formatPrice } from '../../schema/amount.ts'
import { NAME_LENGTH_MAX, TAGS_MAX } from '../../schema/limits.ts'
import { readDefinition } from '../commands/agent-config.ts'
import { UsageError } from '../exit-code.ts'
import { printableLine } from '../text/terminal-text.ts'
import type { SellFlags } from './sell-options.ts'
import type { Offer, Service } from './service.ts'

/** Names of offers that an error lists. */
const SHOWN_MAX = 12

/** What becomes one agent. */
export type Planned = { offer: Offer; definition: AgentDefinition; sample: string | undefined }

/** What the flags say of the agents to be. */
export type Words = Pick<
  SellFlags,
  'name' | 'description' | 'price' | 'maxPrice' | 'tag' | 'apiKeyEnv' | 'runTimeout' | 'sample'
>

const flagOf = { mcp: 'tool', openapi: 'operation', openai: 'model', a2a: undefined, http: undefined } as const

/** The offers that flags choose. Undefined: they choose none, and there are several. @throws UsageError */
export function chosenOffers(service: Service, flags: SellFlags): Offer[] | undefined {
  const { kind, offers, unsold } = service
  const own = flagOf[kind]
  const foreign = (['tool', 'operation', 'model'] as const).find((name) => name !== own && flags[name] !== undefined)
  if (foreign !== undefined)
    throw new UsageError(`--${foreign}: this is ${service.what}${own === undefined ? '' : `: use --${own}`}`)
  const wanted = own === undefined ? undefined : flags[own]
  if (flags.all === true && wanted !== undefined) throw new UsageError(`give either --all or --${own}, not both`)
  if (wanted !== undefined) return [...new Set(wanted)].map((key) => offerOf(key, service))
  if (flags.all === true || offers.length === 1) {
    if (offers.length > 0) return offers
  }
  if (offers.length === 0) {
    const why = unsold.slice(0, SHOWN_MAX).map(({ key, problem }) => `${printableLine(key, 60)}: ${problem}`)
    throw new UsageError(`nothing of it can be sold. ${why.join('; ')}`)
  }
  return undefined
}

function offerOf(key: string, { kind, offers, unsold }: Service): Offer {
  const found =
    offers.find((one) => one.key === key) ?? offers.find((one) => one.key.toLowerCase() === key.toLowerCase())
  if (found !== undefined) return found
  const problem = unsold.find((one) => one.key === key)?.problem
  const shown = JSON.stringify(printableLine(key, 80))
  if (problem !== undefined) throw new UsageError(`--${flagOf[kind]}: ${shown} cannot be sold: ${problem}`)
  throw new UsageError(`--${flagOf[kind]}: there is no ${shown}: ${listed(offers)}`)
}

export function listed(offers: readonly Offer[]): string {
  const shown = offers.slice(0, SHOWN_MAX).map(({ key }) => printableLine(key, 60))
  return `there are ${shown.join(', ')}${offers.length > SHOWN_MAX ? ` and ${offers.length - SHOWN_MAX} more` : ''}`
}

/** The agents to be. @throws UsageError that names the flag */
export function planned(offers: readonly Offer[], words: Words): Planned[] {
  const samples = readSamples(offers, words.sample ?? [])
  const isOne = offers.length === 1
  if (!isOne && words.description !== undefined) {
    throw new UsageError('--description: several agents cannot have one description: sell them one by one')
  }
  const plans = offers.map((offer): Planned => {
    const name = words.name === undefined ? offer.name : isOne ? words.name : `${words.name} ${offer.name}`
    const definition = readDefinition({
      ...offer.runs,
      name: isOne ? name : [...name].slice(0, NAME_LENGTH_MAX).join(''),
      description: words.description ?? (offer.description || undefined),
      price: words.price,
      tags: words.tag ?? offer.tags.slice(0, TAGS_MAX),
      ...{ api_key_env: words.apiKeyEnv, timeout_seconds: words.runTimeout },
      ...(words.maxPrice !== undefined && { max_price: Number(formatPrice(words.maxPrice)) }),
    })
    return { offer, definition, sample: samples.get(offer) ?? offer.sample }
  })
  const seen = new Map<string, Offer>()
  for (const { offer, definition } of plans) {
    const same = seen.get(definition.name.normalize('NFC'))
    if (same !== undefined) {
      const keys = [same, offer].map(({ key }) => printableLine(key, 60)).join(' and ')
      throw new UsageError(
        `${keys} would both be called ${JSON.stringify(definition.name)}: sell them one by one, each with its --name`,
      )
    }
    seen.set(definition.name.normalize('NFC'), offer)
  }
  return plans
}

function readSamples(offers: readonly Offer[], given: readonly string[]): Map<Offer, string> {
  const samples = new Map<Offer, string>()
  for (const text of given) {
    const named = offers.find(({ key }) => text.startsWith(`${key}=`))
    if (named !== undefined) samples.set(named, text.slice(named.key.length + 1))
    else if (offers.length === 1) samples.set(offers[0]!, text)
    else throw new UsageError('--sample: several agents are sold, so write <tool>=<task>')
  }
  return samples
}
