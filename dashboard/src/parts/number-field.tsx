import { Field } from './field.tsx'

type Props = {
  label: string
  hint?: string
  name: string
  min: number
  max: number
  step?: 'any'
  /** What holds where nothing is typed. */
  placeholder: string
  value: number | undefined
}

export function NumberField({ label, hint, value, ...input }: Props) {
  return (
    <Field label={label} hint={hint}>
      <input type="number" defaultValue={value} {...input} />
    </Field>
  )
}
