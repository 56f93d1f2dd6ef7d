import { expect, test } from 'vitest'
import type { AgentDefinition } from '../schema/agent.ts'
import { createFunctionAgents } from './function-agent.ts'

const definition: AgentDefinition = { name: 'Shouter', description: 'Says it louder.', price: 0n }
const call = { input: 'quiet', callerId: 'did:x', history: [], signal: new AbortController().signal }

test('a function does the task and sees who calls', async () => {
  const functions = createFunctionAgents()
  await functions.register(
    definition,
    (task, { callerId }) => `${task.toUpperCase()} ${callerId}`,
    async () => {},
  )
  expect(await functions.runtimeOf(definition)?.run(call)).toBe('QUIET did:x')
  expect(functions.runtimeOf({ ...definition, name: 'Other' })).toBeUndefined()
})

test('what is no text is a failure of the seller, not an answer', async () => {
  const functions = createFunctionAgents()
  await functions.register(
    definition,
    () => 42 as unknown as string,
    async () => {},
  )
  await expect(functions.runtimeOf(definition)?.run(call)).rejects.toThrow('gave number, not text')
})

test('a registration that fails leaves the earlier function; one without a function ends it', async () => {
  const functions = createFunctionAgents()
  await functions.register(
    definition,
    () => 'first',
    async () => {},
  )
  const refuse = () => Promise.reject(new Error('no'))
  await expect(functions.register(definition, () => 'second', refuse)).rejects.toThrow('no')
  expect(await functions.runtimeOf(definition)?.run(call)).toBe('first')
  await functions.register(definition, undefined, async () => {})
  expect(functions.has('Shouter')).toBe(false)
})

test.each([{ model: 'builtin/echo' }, { command: ['cat'] }])('a function beside %j is refused', async (runs) => {
  const register = createFunctionAgents().register(
    { ...definition, ...runs },
    () => '',
    async () => {},
  )
  await expect(register).rejects.toMatchObject({ code: 'AGENT_NOT_RUNNABLE' })
})
