/** What `npm publish` refuses before it packs. */
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))
const scratch = mkdtempSync(join(tmpdir(), 'stoa-publishable-'))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))
cpSync(join(root, 'publishable.ts'), join(scratch, 'publishable.ts'))

/** Checks a package of this repository. */
function check(url: string) {
  writeFileSync(join(scratch, 'package.json'), JSON.stringify({ type: 'module', repository: { type: 'git', url } }))
  const { status, stderr } = spawnSync(process.execPath, ['publishable.ts'], { cwd: scratch, encoding: 'utf8' })
  return { status, stderr }
}

test('a repository under a reserved name is refused, with what to do', () => {
  const { status, stderr } = check('git+https://stoa.example/stoa.git')
  expect(status).toBe(1)
  expect(stderr).toMatch(/git\+https:\/\/stoa\.example\/stoa\.git.*Set repository\.url to the public repository\.$/m)
  for (const host of ['a.invalid', 'a.b.test', 'localhost:8080', 'A.Example.', 'www.example.org'])
    expect(check(`git+https://${host}/stoa.git`).status, host).toBe(1)
})

test('any other repository may be published', () => {
  for (const url of ['git+https://git.stoa.network/stoa.git', 'git@git.test.network:stoa.git', 'github:stoa/example'])
    expect(check(url), url).toEqual({ status: 0, stderr: '' })
})

test('npm publish runs the check first', () => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: object }
  expect(scripts).toMatchObject({ prepublishOnly: 'node publishable.ts' })
})
