import type { OwnAgent } from '../api/types.ts'
import { Field } from './field.tsx'
import { NumberField } from './number-field.tsx'

/** Private settings of the seller. Undefined means not set. */
export type PrivateText = {
  instructions: string | undefined
  temperature: number | undefined
  max_output_tokens: number | undefined
  reasoning: NonNullable<OwnAgent['reasoning']> | undefined
}

/** Short: it stands in narrow fields, where more would be cut off. */
const MODELS_OWN = 'default'
const efforts: readonly PrivateText['reasoning'][] = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']

export function privateOf(text: (name: string) => string): PrivateText {
  const number = (name: string) => (text(name) === '' ? undefined : Number(text(name)))
  return {
    instructions: text('instructions') || undefined,
    temperature: number('temperature'),
    max_output_tokens: number('max_output_tokens'),
    reasoning: efforts.find((effort) => effort === text('reasoning')),
  }
}

/** The instructions and parameters of a model. They are never listed or shown to buyers (D47). */
export function PrivateFields({ agent }: { agent: OwnAgent | undefined }) {
  return (
    <fieldset className="group private">
      <legend>
        Private <span className="hint">never listed; only the operator of this node sees it</span>
      </legend>
      <Field label="Instructions" hint="Instructions for the model. Empty: the model gets the texts above.">
        <textarea
          name="instructions"
          rows={6}
          maxLength={64_000}
          placeholder="You are a careful translator. …"
          defaultValue={agent?.instructions}
        />
      </Field>
      <div className="fields">
        <NumberField
          label="Temperature"
          hint="0 to 2"
          name="temperature"
          min={0}
          max={2}
          step="any"
          placeholder={MODELS_OWN}
          value={agent?.temperature}
        />
        <NumberField
          label="Longest answer"
          hint="in tokens"
          name="max_output_tokens"
          min={1}
          max={1_000_000}
          placeholder={MODELS_OWN}
          value={agent?.max_output_tokens}
        />
        <Field label="Reasoning" hint="before it answers">
          <select name="reasoning" defaultValue={agent?.reasoning ?? ''}>
            <option value="">{MODELS_OWN}</option>
            {efforts.map((effort) => (
              <option key={effort}>{effort}</option>
            ))}
          </select>
        </Field>
      </div>
    </fieldset>
  )
}
