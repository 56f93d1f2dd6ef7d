/* Questions on a terminal. */
import { type CANCEL_SYMBOL, isCancel, password, text } from '@clack/prompts'
import { describeRefusal } from '../config/config-error.ts'

type Schema = { safeParse(text: string): { success: true } | { success: false; error: Parameters<typeof refusal>[1] } }

/** Asks for a line. The suggestion is the answer of an empty line. */
export async function line(message: string, schema: Schema | undefined, suggestion: string): Promise<string> {
  const validate = (typed: string | undefined) => {
    const value = typed?.trim() || suggestion
    if (schema === undefined) return value === '' ? 'type an answer' : undefined
    if (value === '') return undefined
    const parsed = schema.safeParse(value)
    return parsed.success ? undefined : refusal(value, parsed.error)
  }
  const typed = await answered(
    text({ message, validate, ...(suggestion !== '' && { placeholder: suggestion, defaultValue: suggestion }) }),
  )
  return (typed ?? '').trim() || suggestion
}

/** Asks for a secret, which is not shown. */
export async function hidden(message: string, schema: Schema, optional = false): Promise<string> {
  const validate = (typed: string | undefined) => {
    const value = typed?.trim() ?? ''
    if (value === '') return optional ? undefined : 'type or paste the key, or press Ctrl-C to leave'
    const parsed = schema.safeParse(value)
    return parsed.success ? undefined : refusal(undefined, parsed.error)
  }
  return ((await answered(password({ message, validate }))) ?? '').trim()
}

function refusal(shown: string | undefined, { issues }: { issues: Parameters<typeof describeRefusal>[2][] }): string {
  return describeRefusal('', shown, issues[0]!).replace(/^: /, '')
}

/** The user has pressed Ctrl-C at a question. */
export class UserCanceled extends Error {}

export async function answered<T>(asked: Promise<T | typeof CANCEL_SYMBOL>): Promise<T> {
  const answer = await asked
  if (isCancel(answer)) throw new UserCanceled()
  return answer as T
}
