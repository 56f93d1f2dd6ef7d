import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Agent, request } from 'undici'
import { DurableLog } from '../paid-call/durable-log.ts'
import { hashAuthorization, newCallId } from '../paid-call/floor-call.ts'
import { makeSignature, recoverSignature } from '../paid-call/floor-signatures.ts'
import { NETWORK, PAY_TO, PRICE_ATOMIC } from '../paid-call/terms.ts'
import { servePart } from '../part.ts'

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64')
const accepted = {
  ...{ scheme: 'exact', network: NETWORK, amount: String(PRICE_ATOMIC), payTo: PAY_TO, maxTimeoutSeconds: 300 },
  ...{ asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e', extra: { name: 'USDC', version: '2' } },
}
const json = { 'content-type': 'application/json' }

/**
 * The least that a seller over HTTP must do to lose no money: Node's own server, the signature recovered, the payment on disk before the
 * work, the result on disk before the settlement, the settlement at the facilitator and on disk, and one receipt signed.
 */
servePart(async ({ dataDir = '', facilitatorUrl = '' }) => {
  const log = new DurableLog(dataDir)
  const agent = new Agent()
  let terms = ''

  async function settle(payment: object): Promise<void> {
    if (facilitatorUrl === '') return
    const body = JSON.stringify({ x402Version: 2, paymentPayload: payment, paymentRequirements: accepted })
    const answer = await request(`${facilitatorUrl}/settle`, { method: 'POST', headers: json, body, dispatcher: agent })
    if (((await answer.body.json()) as { success?: boolean }).success !== true) throw new Error('not settled')
  }

  async function sell(header: string, task: string): Promise<{ body: string; headers: Record<string, string> }> {
    const payment = JSON.parse(Buffer.from(header, 'base64').toString()) as { payload: object }
    const call = newCallId()
    hashAuthorization(call.toString('hex'))
    recoverSignature()
    await log.beginCall(call, JSON.stringify(payment.payload))
    const body = JSON.stringify({ output: (JSON.parse(task) as { input: string }).input })
    await log.endCall(call, body)
    await settle(payment)
    await log.settleCall(call, newCallId())
    makeSignature()
    const response = { success: true, network: NETWORK, payer: PAY_TO, transaction: `0x${call.toString('hex')}` }
    return { body, headers: { ...json, 'payment-response': encoded(response) } }
  }

  const server = createServer(async (asked, response) => {
    const task = await textOf(asked)
    const header = asked.headers['payment-signature']
    if (typeof header !== 'string') {
      response.writeHead(402, { ...json, 'payment-required': terms }).end('{}')
      return
    }
    const { body, headers } = await sell(header, task)
    response.writeHead(200, headers).end(body)
  })
  server.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/echo`
  terms = encoded({ x402Version: 2, resource: { url }, accepts: [accepted] })
  const stop = async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    await agent.close()
    log.close()
  }
  return { ready: { url }, stop }
})

async function textOf(asked: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of asked) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}
