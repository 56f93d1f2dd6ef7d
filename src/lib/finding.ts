import { reasonOf } from './errors.ts'
import { orAborted } from './wait.ts'

/** The result of a check. `skip`: not checked, because of a reason that is no fault here or has its own finding. */
export type Finding = { state: 'ok' | 'warn' | 'fail' | 'skip'; text: string; fix?: string }

export const ok = (text: string): Finding => ({ state: 'ok', text })
export const skip = (text: string): Finding => ({ state: 'skip', text })
export const warn = (text: string, fix: string): Finding => ({ state: 'warn', text, fix })
export const fail = (text: string, fix: string): Finding => ({ state: 'fail', text, fix })

/** Runs one check within its time limit. Never throws: an error becomes a finding. */
export async function findWithin(
  limitMs: number,
  stop: AbortSignal,
  look: (signal: AbortSignal) => Promise<Finding | Finding[]>,
): Promise<Finding[]> {
  const limit = AbortSignal.any([AbortSignal.timeout(limitMs), stop])
  try {
    return [await orAborted(look(limit), limit)].flat()
  } catch (error) {
    if (!limit.aborted) return [{ state: 'fail', text: reasonOf(error) }]
    const fix = 'see that the machine has network and is not overloaded, then look again'
    return [fail(`no answer within ${limitMs / 1000} s`, fix)]
  }
}
