import { Field } from './field.tsx'

type Props = {
  label: string
  hint?: string
  name: string
  min: number
  max: number
  step?: 'any'
  /** The value that applies if the field is empty. */
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
