/** An A2A caller that streams is shown the agent's work while it is done. */
import { randomUUID } from 'node:crypto'
import { existsSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { StreamResponse } from '@a2a-js/sdk'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { a2aClient, bindings, resultOf, send, stateOf } from '../support/a2a-client.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'

let node: TestNode
let dir: string
const ids: Record<string, string> = {}

/** Says one word, and the rest when the file it was given as its task is there. */
const program = (end: string) => [
  process.execPath,
  '-e',
  `const { existsSync, readFileSync } = require('node:fs')
   const file = readFileSync(0, 'utf8')
   process.stdout.write('one ')
   setInterval(() => { if (existsSync(file)) { ${end} } }, 20)`,
]

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'stoa-a2a-'))
  node = await startTestNode()
  const agents = { talks: `process.stdout.write('two'); process.exit(0)`, fails: 'process.exit(1)' }
  for (const [name, end] of Object.entries(agents)) {
    const definition = { name, description: 'talks', price: 0n, command: program(end) }
    ids[name] = (await node.node.registerAgent(definition, { persist: false })).id
  }
})
afterAll(async () => {
  await node?.stop()
  await rm(dir, { recursive: true, force: true })
})

const urlOf = (name: string) => `${node.url}/a2a/${ids[name]}`
const piece = ({ payload }: StreamResponse) => {
  if (payload?.$case !== 'artifactUpdate') return payload?.$case
  const content = payload.value.artifact?.parts[0]?.content
  return { text: content?.value, append: payload.value.append }
}

test.each(bindings)(
  'over $binding of $version the first word comes before the agent has said the last',
  async (binding) => {
    const client = await a2aClient(urlOf('talks'), binding)
    const file = join(dir, `go-${randomUUID()}-${binding.version}-${binding.binding.replace('+', '')}`)
    const pieces: ReturnType<typeof piece>[] = []
    for await (const event of client.sendMessageStream(send(file))) {
      pieces.push(piece(event))
      if (event.payload?.$case === 'artifactUpdate' && !existsSync(file)) writeFileSync(file, '')
    }
    expect(pieces.slice(0, 3)).toEqual(['task', 'statusUpdate', { text: 'one ', append: false }])
    expect(pieces.at(-2)).toEqual({ text: 'one two', append: false })
    expect(pieces.at(-1)).toBe('statusUpdate')
  },
)

test('the shown output of a failed run is not a result', async () => {
  const client = await a2aClient(urlOf('fails'))
  const file = join(dir, `fail ${randomUUID()}`)
  let taskId = ''
  for await (const { payload } of client.sendMessageStream(send(file))) {
    if (payload?.$case === 'task') taskId = payload.value.id
    if (payload?.$case === 'artifactUpdate') writeFileSync(file, '')
  }
  const task = await client.getTask({ tenant: '', id: taskId })
  expect([stateOf(task), resultOf(task)]).toEqual(['FAILED', ''])
})

test('an agent that asks another one shows what that shows', async () => {
  const front = { name: 'front', description: 'asks', price: 0n, a2a: urlOf('talks') }
  const { id: agentId } = await node.node.registerAgent(front, { persist: false })
  const file = join(dir, `through ${randomUUID()}`)
  const shown: string[] = []
  const { output } = await node.node.execute({
    agentId,
    input: file,
    signal: AbortSignal.timeout(60_000),
    onProgress({ type, data }) {
      if (type !== 'output') return
      shown.push(data.text)
      writeFileSync(file, '')
    },
  })
  expect(output).toBe('one two')
  expect(shown[0]).toBe('one ')
})

test.each(bindings)('over $binding of $version a message that is refused prints nothing', async (binding) => {
  const print = vi.spyOn(console, 'error').mockImplementation(() => {})
  const client = await a2aClient(urlOf('talks'), binding)
  const refused = client.sendMessageStream(send('go', { messageId: 'x'.repeat(129) }))
  await expect(refused.next()).rejects.toThrow(/messageId/)
  expect(print).not.toHaveBeenCalled()
  print.mockRestore()
})
