import { execFile } from 'node:child_process'
import { cp, mkdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = new URL('../../', import.meta.url).pathname
/** What the build reads, and what the package has besides. */
const names = [
  'bin',
  'dashboard',
  'deploy',
  'docs',
  'src',
  'test/vectors',
  'build.ts',
  'build-parts.ts',
  'build-types.ts',
  'package.json',
]
const texts = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'LICENSE']
const settings = ['tsconfig.json', 'tsconfig.build.json']

export type Packed = { tarball: string; paths: string[] }

/** Builds and packs the package in a copy of the checkout: other tests build and read dist/ at the same time. */
export async function packPackage(scratch: string): Promise<Packed> {
  const cwd = join(scratch, 'checkout')
  await mkdir(join(cwd, 'dist'), { recursive: true })
  for (const name of [...names, ...texts, ...settings]) await cp(join(root, name), join(cwd, name), { recursive: true })
  await symlink(join(root, 'node_modules'), join(cwd, 'node_modules'))
  await run('npm', ['run', 'build'], { cwd })
  const { stdout } = await run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', scratch], { cwd })
  const packed = Object.values(JSON.parse(stdout)).flat() as { filename: string; files: { path: string }[] }[]
  const { filename, files } = packed[0]!
  return { tarball: join(scratch, filename), paths: files.map(({ path }) => path) }
}
