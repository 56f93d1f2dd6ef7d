import { randomUUID } from 'node:crypto'
import type { Host } from '../../src/p2p/host.ts'
import type { Wallet } from '../../src/payments/wallet.ts'
import { FramedStream } from '../../src/protocols/framed-stream.ts'
import { readMessage } from '../../src/protocols/x402/messages.ts'
import type { PaymentEnvelope, PaymentRequirements } from '../../src/schema/payment.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { X402_PROTOCOL } from '../../src/schema/x402.ts'

type Json = Record<string, unknown>
export type RawAnswer = { type: string; message: Json } | undefined

/** A client on a real host. It sends whatever payment messages the test wants, valid or not. */
export class RawPeer {
  readonly #stream: FramedStream

  private constructor(stream: FramedStream) {
    this.#stream = stream
  }

  static async open(host: Host, seller: { peerId: string; addrs: readonly string[] }): Promise<RawPeer> {
    const signal = AbortSignal.timeout(60_000)
    return new RawPeer(new FramedStream(await host.openStream(seller, X402_PROTOCOL, signal)))
  }

  async ask(type: string, message: Json): Promise<RawAnswer> {
    const signal = AbortSignal.timeout(60_000)
    const text = JSON.stringify(
      { version: '1.0', correlation_id: randomUUID(), caller_did: 'did:peer:0zX', ...message },
      (_key, value) => (typeof value === 'bigint' ? value.toString() : value),
    )
    await this.#stream.writeText(type, text, signal)
    return (await readMessage(this.#stream, signal)) as RawAnswer
  }

  request(resource: string, task: string, changes: Json = {}): Promise<RawAnswer> {
    const body = Buffer.from(task).toString('base64')
    return this.ask('x402.request', { resource, method: 'execute', payment: null, body, ...changes })
  }

  /** Requests a challenge and signs its payment; `preemptive` pays without a challenge. */
  async pay(
    resource: string,
    wallet: Wallet,
    now: number,
    changes: Json = {},
  ): Promise<{ correlation_id: string; payment: PaymentEnvelope }> {
    const correlation_id = randomUUID()
    const asked = await this.request(resource, '', { correlation_id, ...changes })
    if (asked?.type !== 'x402.payment_required') throw new Error(`no challenge but ${JSON.stringify(asked)}`)
    const nonce = asked.message.challenge_nonce as Hex
    const requirements = asked.message.payment_requirements as PaymentRequirements
    const { envelope } = wallet.authorize(requirements, { serverNonce: nonce, authorizationNonce: nonce }, now)
    return { correlation_id, payment: envelope }
  }

  async close(): Promise<void> {
    await this.#stream.close()
  }
}

/** The text of a response, or the name of its error. */
export function said(answer: RawAnswer): unknown {
  if (answer?.type === 'x402.error') return answer.message.error_name
  return answer && Buffer.from(String(answer.message.body), 'base64').toString()
}
