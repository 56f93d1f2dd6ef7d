/** The steps of deploy/Dockerfile: always done here, without an engine; and the image itself where one runs. */
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, matchesGlob } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { parse } from 'yaml'

const root = new URL('..', import.meta.url).pathname
const dir = mkdtempSync(join(tmpdir(), 'stoa-image-'))
afterAll(() => rmSync(dir, { recursive: true, force: true }))

const text = readFileSync(join(root, 'deploy/Dockerfile'), 'utf8').replaceAll('\\\n', ' ')
/** The instructions of a stage: from its FROM to the next one. */
const stage = (name: string) =>
  new RegExp(`^FROM \\S+ AS ${name}$([\\s\\S]*?)(?=^FROM |$(?![\\s\\S]))`, 'm').exec(text)![1]!

/** What the engine is sent: the ignore file lets in names, and takes some out again. */
function copyContext(to: string): void {
  const lines = readFileSync(join(root, 'deploy/Dockerfile.dockerignore'), 'utf8').trim().split('\n')
  const out = lines.filter((line) => !line.startsWith('!') && line !== '**')
  for (const name of lines.filter((line) => line.startsWith('!')).map((line) => line.slice(1))) {
    const filter = (path: string) => !out.some((glob) => matchesGlob(path.slice(root.length), glob))
    cpSync(join(root, name), join(to, name), { recursive: true, filter })
  }
}

test('what the ignore file lets in builds, and what the image copies of it runs', { timeout: 240_000 }, () => {
  const build = join(dir, 'build')
  const image = join(dir, 'image')
  for (const place of [build, image]) mkdirSync(place)
  copyContext(build)
  symlinkSync(join(root, 'node_modules'), join(build, 'node_modules'))
  const runs = [...stage('build').matchAll(/^RUN (npm run .+)$/gm)].map(([, line]) => line!.split(' '))
  expect(runs).toEqual([['npm', 'run', 'build']])
  const env = { ...process.env, PATH: `${join(root, 'node_modules/.bin')}:${process.env.PATH}` }
  for (const [program = '', ...args] of runs) execFileSync(program, args, { cwd: build, env, stdio: 'pipe' })

  symlinkSync(join(root, 'node_modules'), join(image, 'node_modules'))
  for (const [, words = ''] of stage('node').matchAll(/^COPY (?!--from=modules)(.+)$/gm)) {
    const [to = '', ...sources] = words
      .split(/\s+/)
      .filter((word) => !word.startsWith('--'))
      .reverse()
    for (const source of sources.map((path) => path.replace(/^\/app\//, ''))) {
      const target = to === './' ? join(image, source) : join(image, to)
      mkdirSync(dirname(target), { recursive: true })
      cpSync(join(build, source), target, { recursive: true })
    }
  }
  expect(existsSync(join(image, 'src'))).toBe(false)
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  const stoa = spawnSync(process.execPath, [join(image, 'bin/stoa.js'), '--version'], { encoding: 'utf8' })
  expect(stoa).toMatchObject({ status: 0, stdout: `${version}\n` })
})

test('the health check of the image is that of compose.yaml, as images in OCI format have none', () => {
  const [, json = ''] = /HEALTHCHECK .*CMD (\[.*\])$/m.exec(text)!
  const compose = parse(readFileSync(join(root, 'deploy/compose.yaml'), 'utf8'), { merge: true }) as {
    services: Record<string, { healthcheck?: { test: string[] } }>
  }
  const [, ...words] = compose.services.seller!.healthcheck!.test
  expect(words.map((word) => word.replaceAll('$$', '$'))).toEqual(JSON.parse(json))
})

const hasEngine = spawnSync('docker', ['info'], { stdio: 'ignore' }).status === 0
test.skipIf(!hasEngine)('the image is built, and runs', { timeout: 1_200_000 }, () => {
  execFileSync('docker', ['build', '-f', 'deploy/Dockerfile', '-t', 'stoa-test', '.'], { cwd: root, stdio: 'pipe' })
  expect(execFileSync('docker', ['run', '--rm', 'stoa-test', '--version'], { encoding: 'utf8' })).toMatch(/^\d/)
})
