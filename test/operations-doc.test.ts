import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { exitCodesTable } from '../src/cli/exit-code.ts'
import { configKeys, parseConfigYaml } from '../src/config/config-yaml.ts'
import { variablesTable } from '../src/config/env.ts'

const page = readFileSync(new URL('../docs/operations.md', import.meta.url), 'utf8')
const between = (name: string) =>
  new RegExp(`<!-- ${name}: .* -->\\n([\\s\\S]*?)\\n<!-- /${name} -->`).exec(page)?.[1] ?? `no markers for ${name}`

test('docs/operations.md holds a row for every variable, as the schema has it (D4)', () => {
  expect(between('variables'), 'paste the expected table between the markers').toBe(variablesTable())
})

test('docs/operations.md holds every exit status', () => {
  expect(between('exit-status'), 'paste the expected table between the markers').toBe(exitCodesTable())
})

test('docs/operations.md shows every key of config.yaml, in a file that can be read', () => {
  const text = /## config\.yaml[\s\S]*?```yaml\n([\s\S]*?)```/.exec(page)?.[1] ?? ''
  expect(() => parseConfigYaml(text, 'config.yaml')).not.toThrow()
  let group = ''
  const shown = text.split('\n').flatMap((line) => {
    const [, indent = '', key, value] = /^( *)([a-z0-9_]+):( .+)?$/.exec(line) ?? []
    if (key === undefined) return []
    if (indent === '') group = value === undefined ? `${key}.` : ''
    return value === undefined ? [] : [group + key]
  })
  expect(shown.sort()).toEqual([...configKeys].sort())
})
