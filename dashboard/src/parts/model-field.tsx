import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { AvailableModels } from '../api/types.ts'
import { count } from '../format.ts'
import type { Kind } from './agent-kinds.tsx'
import { Field } from './field.tsx'

const MODELS_MS = 600_000

/** The model of an agent. The field suggests models of the node's model servers and accepts any text. */
export function ModelField({ kind, model }: { kind: Kind; model: string | undefined }) {
  const known = useResource('/models', (signal) => call<AvailableModels>('/models', { signal }), {
    everyMs: MODELS_MS,
  }).data
  if (kind === 'builtin') {
    const builtin = known?.builtin ?? []
    return (
      <Field key="builtin" label="Runs on">
        <select name="model" defaultValue={model} key={builtin.length}>
          {model !== undefined && builtin.every((one) => one.model !== model) && <option>{model}</option>}
          {builtin.map((one) => (
            <option key={one.model} value={one.model}>
              {one.model.replace('builtin/', '')}: {one.description}
            </option>
          ))}
        </select>
      </Field>
    )
  }
  const models = known?.servers.flatMap((server) => server.models) ?? []
  return (
    <>
      <Field key="model" label="Runs on" hint={hintOf(known, model)}>
        <input
          name="model"
          list="models"
          maxLength={200}
          placeholder={known?.default === undefined ? 'provider/model' : `empty: ${known.default}`}
          defaultValue={model}
        />
      </Field>
      <datalist id="models">
        {models.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      {known?.servers
        .filter(({ problem }) => problem !== undefined)
        .map(({ url, problem }) => (
          <p key={url} className="note">
            {url}: {problem}.
          </p>
        ))}
    </>
  )
}

/** An agent that has a model may have a server of its own, which is not among the known ones. */
function hintOf(known: AvailableModels | undefined, model: string | undefined): string {
  const answering = known?.servers.filter(({ models }) => models.length > 0) ?? []
  if (known === undefined || (answering.length === 0 && (known.default ?? model) !== undefined)) {
    return 'provider/model, such as anthropic/claude-sonnet-4-5'
  }
  if (answering.length === 0) {
    return 'No model key and no model server is set. Add one with stoa init.'
  }
  const told = answering.map(({ url, models }) => `${count(models.length)} at ${url}`).join(', ')
  return `Type provider/model, or choose from the models that answer: ${told}.`
}
