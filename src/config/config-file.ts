import { replaceFile } from './replace-file.ts'
import type { Settings } from './settings.ts'
import { readSettingsText } from './settings-text.ts'

/**
 * Reads config.yaml. A missing or empty file has no settings. The YAML library loads only if there is a file.
 *
 * @throws ConfigError with file and line
 */
export async function readConfigFile(path: string): Promise<Settings> {
  const text = await readSettingsText(path)
  if (text === undefined) return {}
  const { parseConfigYaml } = await import('./config-yaml.ts')
  return parseConfigYaml(text, path)
}

/**
 * Sets keys of config.yaml; keys of a group as `group.key`. Comments, order and everything else are kept.
 *
 * @returns true if the file had to change
 * @throws ConfigError if the present or the new file is not valid, which leaves it unchanged
 */
export async function setInConfigFile(
  path: string,
  values: Readonly<Record<string, string | number | boolean | readonly string[]>>,
): Promise<boolean> {
  const text = (await readSettingsText(path)) ?? ''
  const [{ parseConfigYaml }, { parseDocument }] = await Promise.all([import('./config-yaml.ts'), import('yaml')])
  parseConfigYaml(text, path)
  const document = parseDocument(text)
  const changed = Object.entries(values).filter(([key, value]) => document.getIn(key.split('.')) !== value)
  if (changed.length === 0) return false
  for (const [key, value] of changed) document.setIn(key.split('.'), value)
  const next = document.toString()
  parseConfigYaml(next, path)
  await replaceFile(path, next)
  return true
}
