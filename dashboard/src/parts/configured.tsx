import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { Configuration, Setting } from '../api/types.ts'
import { Show } from './states.tsx'

/** The node's settings at start, and where to change each. */
export function Configured() {
  const known = useResource('/config', (signal) => call<Configuration>('/config', { signal }), { everyMs: 600_000 })
  return (
    <Show of={known} what="The configuration is">
      {({ config_file, settings }) => (
        <>
          <p className="hint">
            These are the settings since the last start of the node. A flag overrides a variable, and a variable
            overrides <code>{config_file}</code>. Changes there apply after the next start. Keys are never shown here;{' '}
            <code>stoa doctor</code> checks them.
          </p>
          <dl className="facts" aria-label="Settings by their keys in config.yaml">
            {settings.map((setting) => (
              <div key={setting.key} className="setting">
                <dt>
                  <code>{setting.key}</code>
                </dt>
                <dd>{valueText(setting.value)}</dd>
                <dd className="muted">{placesOf(setting)}</dd>
              </div>
            ))}
          </dl>
        </>
      )}
    </Show>
  )
}

function valueText(value: Setting['value']): string {
  if (value === null) return 'not set'
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (typeof value !== 'object') return String(value)
  return value.length === 0 ? 'none' : value.join(', ')
}

function placesOf({ flag, variable, operation }: Setting): string {
  const places = [flag, variable].filter((place) => place !== undefined)
  const isBudget = operation === 'PUT /budget'
  if (places.length === 0) places.push(isBudget ? 'config.yaml' : 'only in config.yaml')
  if (isBudget) places.push('above, under Budget')
  return places.join(', ')
}
