import { expect, test } from 'vitest'
import type { McpOffer } from '../../agents/services/mcp-tools.ts'
import { apiOperations } from '../../agents/services/openapi.ts'
import type { JsonObject } from '../../agents/services/plain-schema.ts'
import { a2aOffer, apiOffers, mcpOffers } from './offers.ts'

const from = 'https://api.example/openapi.json'
/** The offer of the one operation of a document. */
function offered(operation: object) {
  const servers = [{ url: 'https://api.example' }]
  const document: JsonObject = { info: { title: 'Texts.', version: '2' }, servers, paths: { '/a': { get: operation } } }
  const { what, offers } = apiOffers(document, apiOperations(document, from), { from, server: undefined })
  return { what, ...offers[0]! }
}

test.each([
  ['Translates a text.', 'Translates a text'],
  ['Translates a text...', 'Translates a text'],
  ['Translates a text. ', 'Translates a text'],
  ['翻译文本。', '翻译文本'],
  ['Is it up?', 'Is it up?'],
  ['Version 1.2', 'Version 1.2'],
])('an operation with the summary %j is called %j', (summary, name) => {
  expect(offered({ summary }).name).toBe(name)
})

test('a name that only a full stop ends is found by its id, and a description has one stop at a time', () => {
  expect(offered({ operationId: 'get.it.', summary: '…' }).name).toBe('get.it')
  const { what, description } = offered({ summary: 'Translates a text.', description: 'Into any language.' })
  expect(what).toBe('an OpenAPI document, Texts 2, with 1 operation')
  expect(description).toMatch(/^Translates a text\. Into any language\. The task is/)
  expect(offered({ summary: 'Is it up?', description: 'Asks.' }).description).toMatch(/^Is it up\? Asks\. The task/)
})

test('tools and remote agents have no full stop at the end of their names either', () => {
  const schema = { type: 'object', properties: {} }
  const tool = { tool: 'say', title: 'Says it.', description: '', isReadOnly: true, schema }
  const offer = { name: 'Sayer.', version: '1', protocol: '2025-06-18', tools: [tool] } as unknown as McpOffer
  expect(mcpOffers(offer, { url: 'https://mcp.example' })).toMatchObject({ offers: [{ name: 'Says it' }] })
  const service = a2aOffer({ name: 'Poet.' }, 'https://a2a.example')
  expect([service.what, service.offers[0]!.name]).toEqual(['an A2A agent, Poet', 'Poet'])
})
