import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, expect, test } from 'vitest'
import { killNodeProcesses, startNodeProcess } from '../support/node-process.ts'

const run = promisify(execFile)
const root = new URL('../../', import.meta.url).pathname
const scratch = await mkdtemp(join(tmpdir(), 'stoa-package-'))
afterAll(async () => {
  await killNodeProcesses()
  await rm(scratch, { recursive: true, force: true })
})

test('the packed tarball, unpacked elsewhere, runs without the source', { timeout: 120_000 }, async () => {
  await run('npm', ['run', 'build'], { cwd: root })
  const { stdout } = await run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', scratch], {
    cwd: root,
  })
  const packed = Object.values(JSON.parse(stdout)).flat() as { filename: string; files: { path: string }[] }[]
  const paths = packed[0]!.files.map((file) => file.path)
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
  await run('tar', ['-xzf', join(scratch, packed[0]!.filename), '-C', scratch])
  await symlink(join(root, 'node_modules'), join(scratch, 'node_modules'))

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
  expect(await json<object>(`${url}/a2a/${agent!.id}/.well-known/agent-card.json`)).toMatchObject({ name: 'Echo' })
  expect((await fetch(`${url}/metrics`)).status).toBe(200)
  expect((await fetch(`${url}/dashboard/`)).headers.get('content-type')).toContain('text/html')
  await node.stop()
  expect(await node.exited).toMatchObject({ code: 0 })
})

async function json<T>(url: string, init: RequestInit = {}): Promise<T> {
  return (await (await fetch(url, init)).json()) as T
}
