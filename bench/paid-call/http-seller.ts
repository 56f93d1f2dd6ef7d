import type { AddressInfo } from 'node:net'
import { type FacilitatorClient, HTTPFacilitatorClient } from '@x402/core/server'
import { ExactEvmScheme } from '@x402/evm/exact/server'
import { paymentMiddleware, x402ResourceServer } from '@x402/express'
import express from 'express'
import { servePart } from '../part.ts'
import { instantFacilitator } from './instant-facilitator.ts'
import { NETWORK, PAY_TO } from './terms.ts'

const inProcess: FacilitatorClient = {
  verify: async () => instantFacilitator.verify(),
  settle: async () => instantFacilitator.settle(),
  getSupported: async () => instantFacilitator.supported(),
}

/** The alternative for users: an Express server behind the x402 middleware, built as its README says. */
servePart(async ({ facilitatorUrl = '' }) => {
  const facilitator = facilitatorUrl === '' ? inProcess : new HTTPFacilitatorClient({ url: facilitatorUrl })
  const resourceServer = new x402ResourceServer(facilitator).register(NETWORK, new ExactEvmScheme())
  const price = { scheme: 'exact', price: '$0.001', network: NETWORK, payTo: PAY_TO } as const
  const app = express()
  app.use(
    paymentMiddleware({ 'POST /echo': { accepts: price, description: 'Answers what it is asked.' } }, resourceServer),
  )
  app.post('/echo', express.json(), (request, response) => {
    response.json({ output: (request.body as { input: string }).input })
  })
  const server = app.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  return { ready: { url: `http://127.0.0.1:${port}/echo` } }
})
