import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, relative } from 'node:path'
import { promisify } from 'node:util'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, expect, test } from 'vitest'
import { killNodeProcesses, startNodeProcess } from '../support/node-process.ts'
import { packPackage } from '../support/packed.ts'

const run = promisify(execFile)
const root = new URL('../../', import.meta.url).pathname
const scratch = await mkdtemp(join(tmpdir(), 'stoa-package-'))
afterAll(async () => {
  await killNodeProcesses()
  await rm(scratch, { recursive: true, force: true })
})

test('the packed tarball runs with its production dependencies alone', async () => {
  const { tarball, paths } = await packPackage(scratch)
  const unwanted = paths.filter((path) => /^(src|test|devnet|bench)\/|\.test\./.test(path))
  expect(unwanted.filter((path) => !/^test\/vectors\/[a-z0-9-]+\.json$/.test(path))).toEqual([])
  // Who writes a seller of their own checks it by them: docs/protocol.md names each.
  const vectors = (await readdir(join(root, 'test/vectors'))).map((name) => `test/vectors/${name}`)
  expect(paths).toEqual(expect.arrayContaining(vectors))
  const protocol = await readFile(join(root, 'docs/protocol.md'), 'utf8')
  expect(vectors.filter((path) => !protocol.includes(`\`${basename(path, '.json')}\``))).toEqual([])
  // What the README leads to comes along.
  const links = [...(await readFile(join(root, 'README.md'), 'utf8')).matchAll(/\]\((?!http)([^)#]+)/g)].map(
    ([, to]) => to!,
  )
  expect(links.filter((to) => !paths.some((path) => path === to || path.startsWith(to)))).toEqual([])
  expect(paths).toContain('deploy/systemd/stoa.service')
  expect(paths).toContain('dist/dashboard/index.html')
  expect(paths).toContain('dist/types/index.d.ts')
  // A thread's file, found by its name.
  expect(paths).toContain('dist/node/signature-worker.js')
  expect(paths).toContain('dist/node/builtin-worker.js')
  await run('tar', ['-xzf', tarball, '-C', scratch])
  await installProduction(scratch)
  // The oldest Node.js that package.json names does not know `using`.
  const bundled = await readdir(join(scratch, 'package/dist/node'))
  const texts = await Promise.all(bundled.map((name) => readFile(join(scratch, 'package/dist/node', name), 'utf8')))
  expect(texts.filter((text) => /\bawait using \w/.test(text))).toEqual([])
  // Node.js prints the line of an error that nobody catches.
  const ours = texts.filter((_, index) => /^(?:node|commands|program)-/.test(bundled[index]!))
  expect(ours.length).toBeGreaterThan(2)
  expect(ours.flatMap((text) => text.split('\n')).filter((line) => line.length > 5_000)).toEqual([])

  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  const stoa = [join(scratch, 'package/bin/stoa.js')]
  expect(paths).toContain('dist/node/LICENSES.txt')
  expect((await run(process.execPath, [...stoa, '--version'])).stdout.trim()).toBe(version)
  const embed = `import(${JSON.stringify(join(scratch, 'package/dist/node/index.js'))}).then((m) => console.log(typeof m.createNode))`
  expect((await run(process.execPath, ['-e', embed])).stdout.trim()).toBe('function')

  const args = ['--data-dir', join(scratch, 'data'), '--name', 'Echo', '--description', 'repeats', '--price', '0']
  const node = await startNodeProcess({
    program: stoa[0]!,
    args: [...args, '--model', 'builtin/echo'],
    environment: {},
  })
  const url = node.ready.api_url
  const [agent] = await json<{ id: string }[]>(`${url}/agents`)
  const body = JSON.stringify({ task: 'hello' })
  const headers = { 'content-type': 'application/json' }
  const done = await json<{ output: string }>(`${url}/agents/${agent!.id}/execute`, { method: 'POST', headers, body })
  expect(done.output).toBe('hello')
  // Its zod is another than that of the libraries which are given its schemas.
  const mcp = new Client({ name: 'test', version: '1' })
  await mcp.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)))
  const found = await mcp.callTool({ name: 'discover_agents', arguments: { query: 'echo' } })
  expect(found).toMatchObject({ structuredContent: { agents: [{ agent_id: agent!.id }] } })
  await mcp.close()
  const card = await json<object>(`${url}/a2a/${agent!.id}/.well-known/agent-card.json`)
  expect(card).toMatchObject({ name: 'Echo' })
  // The HTTP+JSON binding of the card needs Express.
  const message = { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'over REST' }] }
  const sent = await json<object>(`${url}/a2a/${agent!.id}/rest/message:send`, {
    method: 'POST',
    headers: { ...headers, 'a2a-version': '1.0' },
    body: JSON.stringify({ message }),
  })
  expect(JSON.stringify(sent)).toContain('over REST')
  expect((await fetch(`${url}/metrics`)).status).toBe(200)
  expect((await fetch(`${url}/dashboard/`)).headers.get('content-type')).toContain('text/html')
  await node.stop()
  expect(await node.exited).toMatchObject({ code: 0 })
})

test('without its native packages it starts, and reaches peers over TCP', async () => {
  const bare = await mkdtemp(join(tmpdir(), 'stoa-bare-'))
  try {
    await cp(join(scratch, 'package'), join(bare, 'package'), { recursive: true })
    const args = ['--data-dir', join(bare, 'data')]
    const node = await startNodeProcess({ program: join(bare, 'package/bin/stoa.js'), args, environment: {} })
    expect(node.ready.addresses.join()).toMatch(/\/tcp\//)
    expect(node.ready.addresses.join()).not.toMatch(/\/quic-v1/)
    expect(node.log()).toContain('the native code of QUIC is not installed here; peers are reached over TCP only')
    await node.stop()
  } finally {
    await rm(bare, { recursive: true, force: true })
  }
})

test('its types hold for a strict program that checks libraries too', async () => {
  const program = join(scratch, 'embed')
  await mkdir(join(program, 'node_modules'), { recursive: true })
  await cp(join(scratch, 'package'), join(program, 'node_modules/stoa'), { recursive: true })
  for (const name of ['zod', '@types/node', 'undici-types'])
    await cp(join(root, 'node_modules', name), join(program, 'node_modules', name), { recursive: true })
  await writeFile(join(program, 'package.json'), '{ "type": "module" }')
  await writeFile(
    join(program, 'embed.ts'),
    `import { createConfig, createNode, type Listing, type StoaNode } from 'stoa'
const secrets = {} as Parameters<typeof createNode>[1]
const node: StoaNode = await createNode(createConfig({ dataDir: 'data' }), secrets)
const found: Listing[] = node.listings()
// @ts-expect-error a listing's name is text
const name: number = found[0]!.name
console.log(name)
`,
  )
  const compilerOptions = { strict: true, skipLibCheck: false, noEmit: true, target: 'esnext', module: 'nodenext' }
  await writeFile(
    join(program, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: { ...compilerOptions, types: ['node'] }, files: ['embed.ts'] }),
  )
  const { stdout } = await run('tsc', ['-p', program], { cwd: root }).catch((error: { stdout: string }) => error)
  expect(stdout.split('\n').filter((line) => !line.includes('node_modules/@types/'))).toEqual([''])
})

/** What `npm install --omit=dev` of the package brings, without asking a registry: copies, no links to the checkout. */
async function installProduction(to: string): Promise<void> {
  const { stdout } = await run('npm', ['ls', '--omit=dev', '--all', '--parseable'], { cwd: root })
  const [, ...folders] = stdout.trim().split('\n')
  const names = folders.map((folder) => relative(root, folder))
  expect(names).toContain('node_modules/zod')
  expect(names.length).toBeLessThanOrEqual(14)
  for (const name of names) await cp(join(root, name), join(to, name), { recursive: true })
}

async function json<T>(url: string, init: RequestInit = {}): Promise<T> {
  return (await (await fetch(url, init)).json()) as T
}
