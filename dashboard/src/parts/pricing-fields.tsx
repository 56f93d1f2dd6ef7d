import type { OwnAgent } from '../api/types.ts'
import { Field } from './field.tsx'

export type Pricing = NonNullable<OwnAgent['pricing']>

const rates = [
  ['per_call', 'A call'],
  ['per_1k_input_tokens', '1000 tokens read'],
  ['per_1k_output_tokens', '1000 tokens written'],
  ['per_second', 'A second'],
] as const satisfies readonly (readonly [keyof Pricing, string])[]

/** Undefined: calls cost the price. */
export function pricingOf(text: (name: string) => string): Pricing | undefined {
  const given = rates.flatMap(([name]) => (text(name) === '' ? [] : [[name, Number(text(name))] as const]))
  const max = text('max')
  if (given.length === 0 && max === '') return undefined
  // The node says what is missing.
  return { ...Object.fromEntries(given), ...(max !== '' && { max: Number(max) }) } as Pricing
}

/** What a call on a payment channel costs, by what it has used. */
export function PricingFields({
  pricing,
  onChange,
}: {
  pricing: Pricing | undefined
  onChange(isMetered: boolean): void
}) {
  return (
    <details
      className="group"
      open={pricing !== undefined}
      onChange={({ currentTarget }) => {
        const typed = [...currentTarget.querySelectorAll('input')].some(({ value }) => value.trim() !== '')
        onChange(typed)
      }}
    >
      <summary>Prices by use</summary>
      <p className="hint">
        In USDC, for calls on payment channels. A call costs what it has used, and at most the last field. Tokens are
        those of a language model or of a module. All empty: each call costs the price.
      </p>
      <div className="fields">
        {rates.map(([name, label]) => (
          <Amount key={name} name={name} label={label} value={pricing?.[name]} />
        ))}
        <Amount name="max" label="At most, a call" value={pricing?.max} />
      </div>
    </details>
  )
}

function Amount({ name, label, value }: { name: string; label: string; value: number | undefined }) {
  return (
    <Field label={label}>
      <input name={name} inputMode="decimal" pattern="[0-9]+([.][0-9]{1,6})?" defaultValue={value} />
    </Field>
  )
}
