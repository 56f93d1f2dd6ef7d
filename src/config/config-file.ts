import { replaceFile } from './replace-file.ts'
import type { Settings } from './settings.ts'
import { readSettingsText } from './settings-text.ts'

/**
 * Reads config.yaml; a missing or empty file gives no settings. The YAML library loads only if there is one.
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
 * Sets keys of config.yaml, those of a group as `group.key`; comments, order and everything else stay.
 *
 * @returns whether the file had to change
 * @throws ConfigError if the file as it stands, or would stand, is not valid: it is not touched then
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
