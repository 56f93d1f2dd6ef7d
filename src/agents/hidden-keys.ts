import type { Logger } from '../lib/logger.ts'
import type { AgentCall, AgentRuntime, OnOutput } from './runtime.ts'

/** Shorter keys are weak, and would also match parts of ordinary words. */
const KEY_LENGTH_MIN = 8
const INSTEAD = '[secret]'

/**
 * Removes the keys of the seller from what an agent gives to its buyers (T21). Many services repeat the address that they were asked
 * at, in links to the next page, and the key with it. Some repeat the headers.
 */
export function withoutKeys(runtime: AgentRuntime, keys: readonly string[], logger: Logger): AgentRuntime {
  const forms = [...new Set(keys.filter(({ length }) => length >= KEY_LENGTH_MIN).flatMap(formsOf))]
  if (forms.length === 0) return runtime
  // Longest first: one form may be a part of another.
  forms.sort((a, b) => b.length - a.length)
  let isTold = false
  const clean = (text: string) => {
    const cleaned = forms.reduce((rest, form) => rest.replaceAll(form, INSTEAD), text)
    if (cleaned !== text && !isTold) {
      isTold = true
      logger.warn(
        { model: runtime.model },
        'a service of this agent repeats the key that it got: the key is removed from results',
      )
    }
    return cleaned
  }
  return {
    ...runtime,
    async run(call) {
      const shown = call.onOutput === undefined ? undefined : inPieces(call.onOutput, forms, clean)
      const watched: AgentCall = shown === undefined ? call : { ...call, onOutput: shown.show }
      const output = clean(await runtime.run(watched))
      await shown?.end()
      return output
    },
  }
}

/** A key may be split between two pieces, so an end that may be the beginning of a key waits for the next piece. */
function inPieces(onOutput: OnOutput, forms: readonly string[], clean: (text: string) => string) {
  let held = ''
  return {
    show(text: string): unknown {
      const whole = clean(held + text)
      held = beginningOf(forms, whole)
      const shown = whole.slice(0, whole.length - held.length)
      return shown === '' ? undefined : onOutput(shown)
    },
    end: () => (held === '' ? undefined : onOutput(held)),
  }
}

/** The longest end of a text with which one of the forms begins. */
function beginningOf(forms: readonly string[], text: string): string {
  for (let length = Math.min(text.length, forms[0]!.length - 1); length > 0; length--) {
    const end = text.slice(-length)
    if (forms.some((form) => form.startsWith(end))) return end
  }
  return ''
}

/** As it is, in an address, in JSON, and in the header of a basic authorization. */
function formsOf(key: string): string[] {
  const inQuery = new URLSearchParams({ '': key }).toString().slice(1)
  const inJson = JSON.stringify(key).slice(1, -1)
  return [key, encodeURIComponent(key), inQuery, inJson, Buffer.from(key).toString('base64')]
}
