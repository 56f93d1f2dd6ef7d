/** A process that may open few files: it says what is needed, and lives on when all are in use. */

import { writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { stopTestNodes, testDir } from '../support/loopback-node.ts'
import { killNodeProcesses, startNodeProcess } from '../support/node-process.ts'
import { until } from '../support/until.ts'

const FILES = 256
const environment = { ETHEREUM_RPC_URL: 'http://127.0.0.1:9', FACILITATOR_URL: 'http://127.0.0.1:9' }

afterAll(async () => {
  await killNodeProcesses()
  await stopTestNodes()
})

test('with too few open files no node starts, and it says how many it needs', async () => {
  const args = ['--data-dir', await testDir()]
  await expect(startNodeProcess({ args, environment, openFiles: 40 })).rejects.toThrow(
    /is 40, and a node needs 1024: raise it with `ulimit -n 1024`/,
  )
})

test('a node whose files are all in use leaves no error to nobody, and works again when some are free', async () => {
  const dir = await testDir()
  const agent = { name: 'echo', description: 'repeats', price: 0, command: ['/bin/cat'] }
  await writeFile(join(dir, 'agents.yaml'), JSON.stringify({ agents: [agent] }), { mode: 0o600 })
  const node = await startNodeProcess({ args: ['--data-dir', dir], environment, openFiles: FILES })
  expect(node.ready.warnings).toContainEqual(expect.stringContaining(`connections of this process is ${FILES}`))
  const { port } = new URL(node.ready.api_url)
  const execute = async () => {
    const agents = (await (await fetch(`${node.ready.api_url}/agents`)).json()) as { id: string }[]
    const response = await fetch(`${node.ready.api_url}/agents/${agents[0]!.id}/execute`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ task: 'hello' }),
      signal: AbortSignal.timeout(10_000),
    })
    return ((await response.json()) as { output?: string }).output
  }
  expect(await execute()).toBe('hello')

  // Made before the files run out: through it the node is asked to do work that needs some.
  const kept = await fetch(`${node.ready.api_url}/health`)
  expect(kept.ok).toBe(true)
  const crowd: Socket[] = []
  for (let n = 0; n < FILES + 100; n++) {
    crowd.push(connect({ port: Number(port), host: '127.0.0.1' }).on('error', () => {}))
  }
  await until(() => crowd.filter(({ readyState }) => readyState === 'open').length > 150)
  await execute().catch(() => {})
  await fetch(`${node.ready.api_url}/status`, { signal: AbortSignal.timeout(5_000) }).catch(() => {})
  for (const socket of crowd) socket.destroy()

  await until(async () => (await execute().catch(() => undefined)) === 'hello', { everyMs: 200 })
  expect(node.log()).not.toMatch(/^(fatal|unhandled)/m)
  expect(node.child.exitCode).toBeNull()
  await node.stop()
})
