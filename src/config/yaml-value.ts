import { parseDocument } from 'yaml'
import { reasonOf } from '../lib/errors.ts'
import { ConfigError } from './config-error.ts'

/** Aliases that one document of others may use. A few lines of aliases to aliases expand to gigabytes. */
const ALIASES_MAX = 100

/** A YAML or JSON text of others as a value. @throws ConfigError */
export function parseYamlValue(text: string): unknown {
  const document = parseDocument(text, { prettyErrors: false, uniqueKeys: false, merge: true })
  const [error] = document.errors
  if (error !== undefined) throw new ConfigError(`not valid YAML: ${error.message}`)
  try {
    return document.toJS({ maxAliasCount: ALIASES_MAX })
  } catch (reason) {
    throw new ConfigError(`not valid YAML: ${reasonOf(reason)}`, { cause: reason })
  }
}
