import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'

const run = promisify(execFile)
const root = new URL('../../', import.meta.url).pathname
const scratch = await mkdtemp(join(tmpdir(), 'stoa-package-'))
afterAll(() => rm(scratch, { recursive: true, force: true }))

test('the packed tarball, unpacked elsewhere, runs without the source', { timeout: 120_000 }, async () => {
  await run('npm', ['run', 'build'], { cwd: root })
  const { stdout } = await run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', scratch], {
    cwd: root,
  })
  const packed = Object.values(JSON.parse(stdout)).flat() as { filename: string; files: { path: string }[] }[]
  const paths = packed[0]!.files.map((file) => file.path)
  expect(paths.filter((path) => /^(src|test|devnet|bench)\/|\.test\./.test(path))).toEqual([])
  expect(paths).toContain('dist/dashboard/index.html')
  await run('tar', ['-xzf', join(scratch, packed[0]!.filename), '-C', scratch])
  await symlink(join(root, 'node_modules'), join(scratch, 'node_modules'))

  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  const stoa = [join(scratch, 'package/bin/stoa.js')]
  expect((await run(process.execPath, [...stoa, '--version'])).stdout.trim()).toBe(version)
  const embed = `import(${JSON.stringify(join(scratch, 'package/dist/index.js'))}).then((m) => console.log(typeof m.createNode))`
  expect((await run(process.execPath, ['-e', embed])).stdout.trim()).toBe('function')
})
