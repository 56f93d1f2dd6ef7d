import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { variablesTable } from '../src/config/env.ts'

test('docs/operations.md holds a row for every variable, as the schema has it (D4)', () => {
  const page = readFileSync(new URL('../docs/operations.md', import.meta.url), 'utf8')
  const table = /<!-- variables: .* -->\n([\s\S]*?)\n<!-- \/variables -->/.exec(page)?.[1]
  expect(table, 'paste the expected table between the markers').toBe(variablesTable())
})
