/** An HTTP API with an OpenAPI document, and what it was asked. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

type Asked = { method: string; url: string; headers: Record<string, unknown>; body: string }
export type SoldApi = AsyncDisposable & { url: string; asked: Asked[]; document: Record<string, unknown> }

const parameter = (name: string, place: string, schema: object, more = {}) => ({ name, in: place, schema, ...more })
const json = (schema: object) => ({ content: { 'application/json': { schema } } })

function documentAt(url: string): Record<string, unknown> {
  return {
    openapi: '3.1.0',
    info: { title: 'Pets', version: '2' },
    servers: [{ url: '/v1' }],
    security: [{ key: [] }],
    components: {
      securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'X-Api-Key' } },
      schemas: {
        Pet: {
          type: 'object',
          properties: { name: { type: 'string', examples: ['Rex'] }, mother: { $ref: '#/components/schemas/Pet' } },
          required: ['name'],
        },
      },
      parameters: { Id: parameter('petId', 'path', { type: 'integer' }, { required: true, example: 7 }) },
    },
    paths: {
      '/pets/{petId}': {
        parameters: [{ $ref: '#/components/parameters/Id' }],
        get: {
          operationId: 'getPet',
          summary: 'Get a pet',
          parameters: [parameter('fields', 'query', { type: 'array', items: { type: 'string' } })],
        },
        delete: { operationId: 'deletePet', summary: 'Delete a pet' },
      },
      '/pets': {
        post: {
          operationId: 'addPet',
          summary: 'Add a pet',
          requestBody: { required: true, ...json({ $ref: '#/components/schemas/Pet' }) },
        },
      },
      '/names/{name}': {
        get: {
          operationId: 'byName',
          parameters: [
            parameter('name', 'path', { type: 'string' }, { required: true }),
            parameter('X-Trace', 'header', { type: 'string' }),
          ],
        },
      },
      '/picture': { get: { operationId: 'picture' } },
      '/away': { get: { operationId: 'away' } },
      '/large': { get: { operationId: 'large' } },
      '/slow': { get: { operationId: 'slow' } },
      '/files': { get: { operationId: 'files', parameters: [{ $ref: 'file:///etc/passwd' }] } },
      '/others': { post: { operationId: 'others', requestBody: json({ $ref: `${url}/schema.json#/x` }) } },
    },
  }
}

export async function startSoldApi(): Promise<SoldApi> {
  const asked: Asked[] = []
  let document: Record<string, unknown> = {}
  const server = createServer(async (request, response) => {
    const { method = '', url = '', headers } = request
    const body = await text(request)
    if (url === '/openapi.json')
      return void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(document))
    asked.push({ method, url, headers, body })
    if (headers['x-api-key'] !== 'pet-key-123456') return void response.writeHead(401).end('who are you')
    if (url === '/v1/picture')
      return void response.writeHead(200, { 'content-type': 'image/png' }).end(Buffer.from('hi'))
    if (url === '/v1/away') return void response.writeHead(302, { location: 'http://169.254.169.254/latest' }).end()
    if (url === '/v1/slow') return
    if (url === '/v1/large') {
      response.writeHead(200, { 'content-type': 'text/plain' })
      const more = () => {
        while (!response.destroyed && response.write('x'.repeat(64 * 1024)));
      }
      response.on('drain', more)
      return more()
    }
    if (method === 'DELETE') return void response.writeHead(204).end()
    response.writeHead(url.startsWith('/v1/') ? 200 : 404, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ method, url, body }))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  document = documentAt(url)
  return {
    url,
    asked,
    document,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
