import { outro } from '@clack/prompts'
import { UserCanceled } from '../prompts.ts'
import { printableLine } from '../text/terminal-text.ts'
import { chosenOffers, type Planned, planned } from './plan.ts'
import { ask, askOffers, askSample, askWords } from './questions.ts'
import type { SellFlags } from './sell-options.ts'
import type { Offer, Service } from './service.ts'

/** Asks for everything that the flags leave open. @returns undefined if the seller leaves */
export async function askedPlans(service: Service, flags: SellFlags): Promise<Planned[] | undefined> {
  return left(async () => {
    const chosen = chosenOffers(service, flags) ?? (await askOffers(service))
    if (service.server !== undefined) {
      const isRight = await ask(
        `The document sends calls to ${service.server}, another host than its own. Is that right?`,
        false,
      )
      if (!isRight) throw new UserCanceled()
    }
    return planned(chosen, await askWords(chosen, flags))
  })
}

/** The task of the test run, or why there is none. */
export async function askedTask(
  offer: Offer,
  sample: string | undefined,
  mayChange: boolean,
): Promise<string | { problem: string }> {
  const none = { problem: 'you chose no test run' }
  const task = sample ?? (await left(() => askSample(offer)))
  if (task === undefined) return none
  if (offer.isReadOnly || mayChange) return task
  const question = `${printableLine(offer.key, 60)} may change something. Run it with ${printableLine(task, 120)}?`
  return (await left(() => ask(question, false))) === true ? task : none
}

export async function confirmListing(count: number, failed: number): Promise<boolean> {
  const agents = count === 1 ? 'the agent' : `${count} agents`
  const question =
    failed === 0 ? `Write ${agents} into agents.yaml?` : `${failed} failed. Write ${agents} into agents.yaml anyway?`
  return (await left(() => ask(question, failed === 0))) === true
}

async function left<T>(asked: () => Promise<T>): Promise<T | undefined> {
  try {
    return await asked()
  } catch (error) {
    if (!(error instanceof UserCanceled)) throw error
    outro('Nothing was changed')
    return undefined
  }
}
