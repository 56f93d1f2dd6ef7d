import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const run = promisify(execFile)
const moduleUrl = new URL('../../src/agents/create-runtime.ts', import.meta.url).href

/** Prints which heavy packages are loaded once every kind of agent is registered, and once they have run. */
const script = `
  import { registerHooks } from 'node:module'
  const loaded = new Set()
  registerHooks({
    load(url, context, next) {
      const name = url.match(/node_modules\\/((?:@[^/]+\\/)?[^/]+)\\//)?.[1]
      if (name === 'ai' || name === 'stopword' || name?.startsWith('@ai-sdk/')) loaded.add(name)
      return next(url, context)
    },
  })
  const { createRuntimeFactory } = await import(process.argv[1])
  const logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => logger }
  const options = { providerKeys: { openai: 'k', anthropic: 'k', google: 'k' }, readKey: () => undefined, dataDir: '.' }
  const refuse = async () => new Response('{}', { status: 401 })
  const create = createRuntimeFactory(options, { fetch: refuse, logger })
  const models = ['gpt-4o', 'claude-haiku-4-5', 'gemini-2.5-flash', 'builtin/summarize']
  const agents = await Promise.all(models.map((model) => create({ name: model, description: 'd', price: 0n, model })))
  const registered = [...loaded]
  const signal = new AbortController().signal
  await Promise.allSettled(agents.map((agent) => agent.run({ input: 'a task.', callerId: 'c', history: [], signal })))
  console.log(JSON.stringify({ registered, ran: [...loaded].sort() }))
`

test('what language models and built-in agents need is loaded with their first task, not with the node', async () => {
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script, '--', moduleUrl])
  const { registered, ran } = JSON.parse(stdout)
  expect(registered).toEqual([])
  expect(ran).toEqual(
    expect.arrayContaining(['ai', 'stopword', '@ai-sdk/openai', '@ai-sdk/anthropic', '@ai-sdk/google']),
  )
  expect(ran).not.toContain('@ai-sdk/openai-compatible')
})
