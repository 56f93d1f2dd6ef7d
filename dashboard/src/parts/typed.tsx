import { useEffect, useRef, useState } from 'react'
import { isAmount } from '../format.ts'
import { Field, NO_AMOUNT } from './field.tsx'

/** Pause after the last key before the node is asked, in ms. */
const TYPING_MS = 200

/** Reads and changes the filters in the page address. */
export type FilterProps = { get(name: string): string; change(changes: Record<string, string>): void }

type TypedProps = FilterProps & {
  label: string
  name: string
  type?: string
  className?: string
  placeholder?: string
  inputMode?: 'decimal'
}

/** A search field that searches when the user pauses. */
export function Typed({ label, name, get, change, className, ...input }: TypedProps) {
  const given = get(name)
  const [text, setText] = useState(given)
  const seen = useRef(given)
  const asked = useRef(given)
  // biome-ignore lint/correctness/useExhaustiveDependencies: `change` is new each time, and means the same
  useEffect(() => {
    const isOthers = given !== seen.current && given !== asked.current
    seen.current = given
    // The filter was removed, or the history moved: drop the typed text.
    if (isOthers) {
      asked.current = given
      setText(given)
      return
    }
    if (text === given) return
    const timer = setTimeout(() => {
      asked.current = text.trim()
      change({ [name]: asked.current })
    }, TYPING_MS)
    return () => clearTimeout(timer)
  }, [text, given, name])
  const isWrong = name === 'max_price' && text !== '' && !isAmount(text)
  return (
    <div className={className}>
      <Field label={label} error={isWrong && NO_AMOUNT}>
        <input value={text} onChange={(event) => setText(event.target.value)} {...input} />
      </Field>
    </div>
  )
}
