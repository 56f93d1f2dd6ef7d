/** The build in a small checkout: what it refuses. */
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))
const scratch = mkdtempSync(join(tmpdir(), 'stoa-build-'))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

/** Builds a checkout whose `src/main.ts` has this text. */
function build(main: string) {
  const checkout = mkdtempSync(join(scratch, 'checkout-'))
  for (const name of ['build.ts', 'build-parts.ts', 'package.json']) cpSync(join(root, name), join(checkout, name))
  symlinkSync(join(root, 'node_modules'), join(checkout, 'node_modules'))
  const files = { main, index: '', 'agents/builtin/builtin-worker': '', 'p2p/signature-worker': '' }
  for (const [name, text] of Object.entries(files)) {
    const path = join(checkout, `src/${name}.ts`)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
  }
  const { status, stderr } = spawnSync(process.execPath, ['build.ts'], { cwd: checkout, encoding: 'utf8' })
  return { status, stderr }
}
const printing = (name: string) => `import * as it from '${name}'\nconsole.log(it)`

test('a declared package is bundled, and native code stays outside', () => {
  expect(build(printing('yaml'))).toMatchObject({ status: 0 })
  expect(build(`import { createRequire } from 'node:module'\nconsole.log(createRequire)`)).toMatchObject({ status: 0 })
  expect(build(printing('secp256k1'))).toMatchObject({ status: 0 })
})

test('a package that only another package brings along is refused', () => {
  const { status, stderr } = build(printing('denque'))
  expect(stderr).toMatch(/src\/main\.ts imports denque, which package\.json does not name/)
  expect(status).not.toBe(0)
})

test('a package that is not installed is refused, also below a declared one', () => {
  for (const name of ['no-such-package', 'zod/no-such-part']) {
    const { status, stderr } = build(printing(name))
    expect(stderr).toContain(name)
    expect(status).not.toBe(0)
  }
})
