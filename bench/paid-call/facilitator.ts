import { randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { servePart } from '../part.ts'

/** A facilitator that says yes at once to everything: what is left is what a seller itself costs. */
servePart(async () => {
  const network = 'eip155:84532'
  const answers: Record<string, () => unknown> = {
    '/supported': () => ({ kinds: [{ x402Version: 2, scheme: 'exact', network }], extensions: [], signers: {} }),
    '/verify': () => ({ isValid: true }),
    '/settle': () => ({ success: true, transaction: `0x${randomBytes(32).toString('hex')}`, network }),
  }
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      const answer = answers[request.url ?? '']
      response.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' })
      response.end(JSON.stringify(answer?.() ?? {}))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return { ready: { url: `http://127.0.0.1:${port}` } }
})
