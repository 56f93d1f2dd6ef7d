/** A remote A2A agent that wants to fill the memory of the node that sells it (T19, T39). */
import { json } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { openA2aAgent } from '../../src/agents/a2a-agent.ts'
import { patientFetch } from '../../src/lib/http.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { useSoldServices } from '../support/sold-services.ts'

const { serve } = useSoldServices()

test.each([
  ['short', 1_000, 'c'.repeat(1_000)],
  ['too long to be kept for each caller', 1_001, ''],
])('T19 the name of a conversation is remembered if it is not long: %s', async (_, length, next) => {
  const asked: string[] = []
  const url: string = await serve(async (request, response) => {
    response.setHeader('content-type', 'application/json')
    if (request.method === 'GET') {
      const interfaces = [{ url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }]
      const modes = { defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'] }
      const card = { name: 'x', description: 'x', version: '1', capabilities: {}, skills: [], ...modes }
      return response.end(JSON.stringify({ ...card, supportedInterfaces: interfaces }))
    }
    const { id, params } = (await json(request)) as { id: unknown; params: { message: { contextId?: string } } }
    asked.push(params.message.contextId ?? '')
    const message = {
      messageId: 'm',
      role: 'ROLE_AGENT',
      contextId: 'c'.repeat(length),
      parts: [{ text: 'ok' }],
    }
    return response.end(JSON.stringify({ jsonrpc: '2.0', id, result: { message } }))
  })
  const options = { name: 'a', url, token: undefined, outputBytesMax: 1_000_000, maxPrice: undefined }
  const agent = openA2aAgent(options, { fetch: patientFetch, logger: silentLogger })
  const { signal } = new AbortController()
  const call = { input: 'task', callerId: 'c', history: [], signal }
  expect([await agent.run(call), await agent.run(call)]).toEqual(['ok', 'ok'])
  expect(asked).toEqual(['', next])
})
