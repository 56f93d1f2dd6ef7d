import type { OwnAgent } from '../api/types.ts'
import { Field } from './field.tsx'

/** What only the seller knows: undefined where nothing is given. */
export type PrivateText = {
  instructions: string | undefined
  temperature: number | undefined
  max_output_tokens: number | undefined
  reasoning: NonNullable<OwnAgent['reasoning']> | undefined
}

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

/** How a model is told what to do and asked: never listed, never shown to buyers (D47). */
export function PrivateFields({ agent }: { agent: OwnAgent | undefined }) {
  return (
    <fieldset className="group private">
      <legend>
        Private <span className="hint">never listed: only this node’s operator sees it</span>
      </legend>
      <Field label="Instructions" hint="What the model is told. Left empty, it is told the words above.">
        <textarea
          name="instructions"
          rows={6}
          maxLength={64_000}
          placeholder="You are a careful translator. …"
          defaultValue={agent?.instructions}
        />
      </Field>
      <div className="fields">
        <Field label="Temperature" hint="0 to 2">
          <input
            name="temperature"
            type="number"
            min={0}
            max={2}
            step="any"
            placeholder="the model’s own"
            defaultValue={agent?.temperature}
          />
        </Field>
        <Field label="Longest answer" hint="in tokens">
          <input
            name="max_output_tokens"
            type="number"
            min={1}
            max={1_000_000}
            placeholder="the model’s own"
            defaultValue={agent?.max_output_tokens}
          />
        </Field>
        <Field label="Reasoning" hint="how much it thinks first">
          <select name="reasoning" defaultValue={agent?.reasoning ?? ''}>
            <option value="">the model’s own</option>
            {efforts.map((effort) => (
              <option key={effort}>{effort}</option>
            ))}
          </select>
        </Field>
      </div>
    </fieldset>
  )
}
