import { execFile } from 'node:child_process'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { readAgentsFile } from '../../src/config/agents-yaml.ts'

const run = promisify(execFile)
const moduleUrl = new URL('../../src/config/agents-yaml.ts', import.meta.url).href

/** What a process does: adds agents of its own, one after the other, and removes every second one again. */
const script = `
  const { addAgentToFile, removeAgentFromFile } = await import(process.argv[1])
  const [, , path, own] = process.argv
  for (let i = 0; i < 10; i++) {
    await addAgentToFile(path, { name: own + i, description: 'd', price: 1n })
    if (i % 2 === 1) await removeAgentFromFile(path, own + i)
  }
`

test('processes that change the file at the same time lose nothing of each other (D11)', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'stoa-agents-'))
  const path = join(directory, 'agents.yaml')
  await writeFile(path, '# shared by all\nagents: []\n')
  const owners = ['a', 'b', 'c']
  await Promise.all(
    owners.map((own) => run(process.execPath, ['--input-type=module', '-e', script, '--', moduleUrl, path, own])),
  )
  const names = (await readAgentsFile(path)).map(({ name }) => name)
  expect(names.sort()).toEqual(owners.flatMap((own) => [0, 2, 4, 6, 8].map((i) => `${own}${i}`)))
  expect(await readdir(directory)).toEqual(['agents.yaml'])
  await rm(directory, { recursive: true })
})
