import { type FormEvent, type RefObject, useState } from 'react'
import type { OwnAgent } from '../api/types.ts'
import { isAmount } from '../format.ts'
import { AgentKinds, type Kind, kindOf, kinds } from './agent-kinds.tsx'
import { Field, NO_AMOUNT } from './field.tsx'
import { ModelField } from './model-field.tsx'
import { NumberField } from './number-field.tsx'
import { type Pricing, PricingFields, pricingOf } from './pricing-fields.tsx'
import { PrivateFields, type PrivateText, privateOf } from './private-fields.tsx'
import { Problem } from './states.tsx'

export type AgentFields = PrivateText & {
  name: string
  description: string
  /** A JSON number: with at most 6 decimals it stays exact. Undefined: sold on payment channels only. */
  price: number | undefined
  pricing: Pricing | undefined
  max_price: number | undefined
  model: string | undefined
  tags: string[]
  timeout_seconds: number | undefined
  streaming: OwnAgent['streaming']
}

const streamingModes: readonly [NonNullable<OwnAgent['streaming']>, string][] = [
  ['owed_once_shown', 'during the run, owed once shown'],
  ['off', 'only with the result'],
  ['after_settlement', 'during the run, after settlement'],
]

type Props = {
  /** Undefined for a new agent. */
  agent: OwnAgent | undefined
  action: string
  /** Lets a parent read the fields before they are saved. */
  form?: RefObject<HTMLFormElement | null>
  onSave(fields: AgentFields): Promise<unknown>
}

/** The values of an agent form. */
export function fieldsOf(form: HTMLFormElement, agent?: OwnAgent): AgentFields {
  const data = new FormData(form)
  const text = (name: string) => String(data.get(name) ?? '').trim()
  const seconds = text('timeout_seconds')
  return {
    name: agent?.name ?? text('name'),
    description: text('description'),
    price: text('price') === '' ? undefined : Number(text('price')),
    pricing: pricingOf(text),
    max_price: text('max_price') === '' ? undefined : Number(text('max_price')),
    model: text('model') || undefined,
    tags: text('tags')
      .split(',')
      .map((tag) => tag.trim())
      .filter((tag) => tag !== ''),
    timeout_seconds: seconds === '' ? undefined : Number(seconds),
    streaming: streamingModes.find(([mode]) => mode === text('streaming'))?.[0],
    ...privateOf(text),
  }
}

/** A form for the listing of an agent and for its private settings. */
export function AgentForm({ agent, action, form, onSave }: Props) {
  const [kind, setKind] = useState<Kind>(agent === undefined ? 'model' : kindOf(agent))
  const [price, setPrice] = useState(
    agent === undefined ? '0' : agent.on_channels_only === true ? '' : `${agent.price}`,
  )
  const [isMetered, setIsMetered] = useState(agent?.pricing !== undefined)
  const [error, setError] = useState<Error>()
  const [busy, setBusy] = useState(false)

  async function save(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const fields = fieldsOf(event.currentTarget, agent)
    setBusy(true)
    setError(undefined)
    await onSave(fields).catch(setError)
    setBusy(false)
  }

  const mayBeEmpty = isMetered && (agent === undefined || agent.on_channels_only === true)
  const isWrong = !isAmount(price) && !(mayBeEmpty && price.trim() === '')
  const isOwn = kind === 'own'
  return (
    <form className="form agent-form" onSubmit={save} ref={form}>
      {agent === undefined && <AgentKinds kind={kind} onChange={setKind} />}
      {agent === undefined && isOwn ? (
        kinds.own.details
      ) : (
        <>
          <fieldset className="group">
            <legend>What buyers see</legend>
            {agent === undefined && (
              <Field label="Name" hint="The name cannot be changed later. A new name makes a new agent.">
                <input name="name" required maxLength={80} placeholder="Summary" />
              </Field>
            )}
            <Field label="Description" hint="What the agent does, and what to send to it.">
              <textarea name="description" rows={4} required maxLength={4000} defaultValue={agent?.description} />
            </Field>
            <div className="fields">
              <Field
                label="Price, USDC"
                hint={mayBeEmpty ? 'without a channel; empty: sold on channels only' : '0 means free'}
                error={isWrong && NO_AMOUNT}
              >
                <input
                  name="price"
                  inputMode="decimal"
                  required={!mayBeEmpty}
                  value={price}
                  onChange={(event) => setPrice(event.target.value)}
                />
              </Field>
              {agent?.runs === 'a2a' && (
                <Field label="Pays at most, USDC" hint="for one run of the remote agent; empty: nothing">
                  <input
                    name="max_price"
                    inputMode="decimal"
                    pattern="[0-9]+([.][0-9]{1,6})?"
                    defaultValue={agent.max_price}
                  />
                </Field>
              )}
              <NumberField
                label="Time limit, seconds"
                name="timeout_seconds"
                min={1}
                max={3600}
                placeholder="120"
                value={agent?.timeout_seconds}
              />
            </div>
            <PricingFields pricing={agent?.pricing} onChange={setIsMetered} />
            <Field label="Show output" hint="of a paid agent, before the result">
              <select name="streaming" defaultValue={agent?.streaming ?? ''}>
                <option value="">default: {streamingModes[0]![1]}</option>
                {streamingModes.map(([mode, text]) => (
                  <option key={mode} value={mode}>
                    {text}
                  </option>
                ))}
              </select>
            </Field>
            {!isOwn && <ModelField kind={kind} model={agent?.model} />}
            <Field label="Tags" hint="separated by commas">
              <input name="tags" placeholder="text, contract" defaultValue={agent?.tags.join(', ')} />
            </Field>
          </fieldset>
          {kind === 'model' && <PrivateFields agent={agent} />}
          <button type="submit" className="primary" disabled={busy || isWrong}>
            {busy ? 'Saving…' : action}
          </button>
          {error !== undefined && <Problem error={error} />}
        </>
      )}
    </form>
  )
}
