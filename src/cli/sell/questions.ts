import { confirm, multiselect } from '@clack/prompts'
import { UsdcText } from '../../config/values.ts'
import { AgentName } from '../../schema/agent.ts'
import { answered, line } from '../prompts.ts'
import { printableLine } from '../text/terminal-text.ts'
import type { Words } from './plan.ts'
import type { Offer, Service } from './service.ts'

/** Offers that are shown as a list to choose from. */
const SHOWN_MAX = 200

export async function askOffers({ offers, kind }: Service): Promise<Offer[]> {
  const things = { mcp: 'tools', openapi: 'operations', openai: 'models', a2a: 'agents', http: 'services' }[kind]
  return answered(
    multiselect<Offer>({
      message: `Which ${things} do you sell? Space chooses, Enter ends.`,
      options: offers.slice(0, SHOWN_MAX).map((offer) => ({
        value: offer,
        label: printableLine(offer.key, 60),
        hint: printableLine(`${offer.isReadOnly ? '' : 'may change something; '}${offer.description}`, 70),
      })),
      required: true,
    }),
  )
}

/** Asks for what the flags leave open. */
export async function askWords(offers: readonly Offer[], flags: Words): Promise<Words> {
  const [first] = offers
  const isOne = offers.length === 1
  const name = flags.name ?? (isOne ? await line('Name of the agent', AgentName, first!.name) : undefined)
  const said = isOne ? printableLine(first!.description, 500) : ''
  const description =
    flags.description ?? (isOne ? await line('What the agent does (public)', undefined, said) : undefined)
  const message = `Price of one task in USDC${isOne ? '' : ', for each agent'} (0 means free)`
  const price = flags.price ?? UsdcText.parse(await line(message, UsdcText, '0.01'))
  // An answer that repeats the suggestion keeps the whole text, which the line may have cut.
  return { ...flags, name, price, description: description === said ? undefined : description }
}

/** Asks for a task if the service gives no example. Empty: no test run. */
export async function askSample(offer: Offer): Promise<string | undefined> {
  const isJson = offer.runs.mcp_tool !== undefined || offer.runs.operation !== undefined
  const what = isJson ? 'as JSON' : 'as text'
  const typed = await line(`A task to test ${printableLine(offer.key, 60)}, ${what} (- for no test)`, undefined, '-')
  return typed === '-' ? undefined : typed
}

export function ask(message: string, initialValue: boolean): Promise<boolean> {
  return answered(confirm({ message, initialValue }))
}
