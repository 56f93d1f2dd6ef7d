import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { servePart } from '../part.ts'
import { instantFacilitator } from './instant-facilitator.ts'

/** The instant facilitator over HTTP, in its own process, for runs with `--facilitator http`. */
servePart(async () => {
  const answers: Record<string, () => unknown> = {
    '/supported': instantFacilitator.supported,
    '/verify': instantFacilitator.verify,
    '/settle': instantFacilitator.settle,
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
