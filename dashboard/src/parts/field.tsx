import { cloneElement, type ReactElement, useId } from 'react'

type Props = {
  label: string
  /** Screen readers say the hint after the label. An error comes before the hint. */
  hint?: string | undefined
  error?: string | false | undefined
  children: ReactElement<{ id?: string; 'aria-describedby'?: string | undefined; 'aria-invalid'?: boolean }>
}

/** An input with its label, hint and error. */
export function Field({ label, hint, error, children }: Props) {
  const id = useId()
  const isWrong = typeof error === 'string'
  const note = isWrong ? error : hint
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {cloneElement(children, {
        id,
        'aria-describedby': note === undefined ? undefined : `${id}-note`,
        ...(isWrong && { 'aria-invalid': true }),
      })}
      {note !== undefined && (
        <span id={`${id}-note`} className={isWrong ? 'field-error' : 'hint'}>
          {note}
        </span>
      )}
    </div>
  )
}

export const NO_AMOUNT = 'a number such as 0.05, with at most 6 decimals'
