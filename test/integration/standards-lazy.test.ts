import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const run = promisify(execFile)
const support = new URL('../support/test-node.ts', import.meta.url).href

/** Prints which of the heavy packages a node has loaded when it runs, and after each of the two is first asked. */
const script = `
  import { registerHooks } from 'node:module'
  const loaded = new Set()
  registerHooks({
    load(url, context, next) {
      const name = url.match(/node_modules\\/((?:@[^/]+\\/)?[^/]+)\\//)?.[1]
      if (/^(@a2a-js\\/|@modelcontextprotocol\\/|express$)/.test(name ?? '')) loaded.add(name)
      return next(url, context)
    },
  })
  const { startTestNode } = await import(process.argv[1])
  const { url, stop } = await startTestNode()
  const seen = async (path, init) => { await (await fetch(url + path, init)).text(); return [...loaded].sort() }
  const json = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
  const post = { method: 'POST', headers: json, body: '{}' }
  console.log(JSON.stringify({
    started: [...loaded],
    cards: await seen('/.well-known/agent.json'),
    rpc: await seen('/a2a/market', post),
    rest: await seen('/a2a/market/rest/tasks'),
    mcp: await seen('/mcp', post),
  }))
  await stop()
`

test('A2A and MCP load when they are first asked, and cards need neither', async () => {
  // The engine of the ledger loads none of these, and the server of the tests is not known in there.
  const env = { ...process.env, STOA_TEST_ENGINE: '' }
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script, '--', support], { env })
  const a2a = ['@a2a-js/sdk']
  const seen = JSON.parse(stdout)
  expect(seen).toMatchObject({ started: [], cards: [], rpc: a2a, rest: [...a2a, 'express'] })
  expect(seen.mcp).toContain('@modelcontextprotocol/server')
})
