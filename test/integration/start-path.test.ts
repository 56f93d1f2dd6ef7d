import { spawn } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'

const directory = await mkdtemp(join(tmpdir(), 'stoa-start-path-'))
afterAll(() => rm(directory, { recursive: true, force: true }))
const fileOf = (path: string) => fileURLToPath(new URL(path, import.meta.url))

/** Writes down which packages, schemas and translations a process has loaded, and which large parts of Node, when it ends. */
const record = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from 'node:module'
  import { writeFileSync } from 'node:fs'
  const loaded = new Set()
  registerHooks({
    load(url, context, next) {
      const name = url.match(/.*node_modules\\/((?:@[^/]+\\/)?[^/]+)\\//)?.[1]
      const part = url.match(/.*\\/src\\/(schema\\/.*)/)?.[1] ?? url.match(/.*\\/zod\\/v4\\/(locales\\/.*)/)?.[1]
      for (const one of [name, part]) if (one !== undefined) loaded.add(one)
      return next(url, context)
    },
  })
  process.on('exit', () => {
    if (process.moduleLoadList.some((name) => name.includes('deps/undici'))) loaded.add('undici of Node')
    writeFileSync(process.env.LOADED_FILE, JSON.stringify([...loaded]))
  })
`)}`

/** The packages that a program has loaded from its start to its end, when nobody asks anything of it. */
async function loadedBy(file: string, args: string[], ready: string): Promise<string[]> {
  const LOADED_FILE = join(directory, 'loaded.json')
  const env = { ...process.env, LOADED_FILE, NODE_LISTEN_HOST: '127.0.0.1' }
  const child = spawn(process.execPath, ['--import', record, fileOf(file), ...args], { env, stdio: 'pipe' })
  let output = ''
  const stopWhenReady = (chunk: Buffer) => {
    output += chunk
    if (output.includes(ready)) child.kill('SIGTERM')
  }
  child.stdout.on('data', stopWhenReady)
  child.stderr.on('data', stopWhenReady)
  const status = await new Promise((resolve) => child.once('exit', resolve))
  expect(status, output).toBe(0)
  return JSON.parse(await readFile(LOADED_FILE, 'utf8'))
}

test('a node starts, and stops, with what libp2p needs, zod and commander: whatever else there is loads when it is used', async () => {
  const flags = ['start', '--json', '--data-dir', join(directory, 'node'), '--port', '0', '--api-port', '0']
  const loaded = await loadedBy('../../bin/stoa.js', flags, '"event":"ready"')
  const bare = await loadedBy('../../bench/start/bare-node.ts', [], 'listening')
  expect(bare).toContain('libp2p')
  expect(loaded).toContain('libp2p')
  const more = loaded.filter((name) => !bare.includes(name) && !/^(@libp2p|schema)\//.test(name))
  expect(more.sort()).toEqual(['commander', 'locales/en.js', 'zod'])
  // Each costs a start one to ten ms: what the API says in them, it says when it is first asked.
  const heavy = [
    'api',
    'events',
    'ledger',
    'order',
    'receipt-record',
    'search',
    'session',
    'token',
    'tools',
    'workflow',
  ]
  expect(loaded.filter((name) => heavy.includes(/^schema\/(.+)\.ts$/.exec(name)?.[1] ?? ''))).toEqual([])
  expect(loaded).toContain('schema/listing.ts')
})

test('T21: compiled code is taken only from a directory that no other user of this machine can write', async () => {
  const kept = async (TMPDIR: string) => {
    const child = spawn(process.execPath, [fileOf('../../bin/stoa.js'), '--version'], {
      env: { PATH: process.env.PATH, HOME: directory, TMPDIR },
    })
    expect(await new Promise((resolve) => child.once('exit', resolve))).toBe(0)
    return (await readdir(TMPDIR, { recursive: true })).sort()
  }
  const own = `stoa-${process.getuid!()}`
  const [fresh, open] = [await mkdtemp(join(directory, 'tmp-')), await mkdtemp(join(directory, 'tmp-'))]
  expect((await kept(fresh)).length).toBeGreaterThan(10)
  expect((await stat(join(fresh, own))).mode & 0o777).toBe(0o700)
  expect(await readdir(fresh)).toEqual([own])
  await mkdir(join(open, own))
  await chmod(join(open, own), 0o777)
  expect(await kept(open)).toEqual([own])
})
