import type { Stream } from '@libp2p/interface'
import { streamPair } from '@libp2p/utils'
import type { Frame } from '../../src/protocols/frame.ts'
import { FramedStream } from '../../src/protocols/framed-stream.ts'
import { type AnyX402Message, readMessage } from '../../src/protocols/x402/messages.ts'
import { randomHex, requirements } from './payments.ts'

/** One stream of a seller that follows a script. */
export type ScriptedStream = {
  /** 0 for the first opened stream. */
  index: number
  next(): Promise<AnyX402Message | undefined>
  /** The next message in wire format, for messages that a strict reader refuses. */
  nextFrame(): Promise<Frame | undefined>
  send(type: string, message: object): Promise<void>
  challenge(request: AnyX402Message | undefined, changes?: object): Promise<void>
  respond(request: AnyX402Message | undefined, changes?: object): Promise<void>
  refuse(request: AnyX402Message | undefined, error_name: string, changes?: object): Promise<void>
  raw: Stream
}

/** A seller that answers by the script of the test, stream by stream. */
export class ScriptedSeller {
  readonly received: AnyX402Message[] = []
  opened = 0
  readonly #script: (stream: ScriptedStream) => Promise<void>

  constructor(script: (stream: ScriptedStream) => Promise<void>) {
    this.#script = script
  }

  /** Opens a stream, as `Host.openStream` does. */
  readonly open = async () => {
    const [ours, theirs] = await streamPair({ protocol: '/test' })
    this.serve(theirs)
    return ours
  }

  /** Follows the script on a stream that a buyer opened, as a stream handler. */
  serve(theirs: Stream): void {
    const stream = new FramedStream(theirs)
    const signal = AbortSignal.timeout(60_000)
    const text = (_key: string, value: unknown) => (typeof value === 'bigint' ? value.toString() : value)
    const send = (type: string, message: object) => stream.writeText(type, JSON.stringify(message, text), signal)
    const header = (request: AnyX402Message | undefined) => ({
      version: '1.0',
      correlation_id: request?.message.correlation_id,
    })
    const index = this.opened++
    const scripted: ScriptedStream = {
      index,
      raw: theirs,
      send,
      next: async () => {
        const message = await readMessage(stream, signal)
        if (message !== undefined) this.received.push(message)
        return message
      },
      nextFrame: () => stream.read(signal),
      challenge: (request, changes = {}) =>
        send('x402.payment_required', {
          ...header(request),
          challenge_nonce: randomHex(),
          challenge_expires_at: 0,
          payment_requirements: requirements(),
          message: '',
          seller_did: '',
          ...changes,
        }),
      respond: (request, changes = {}) =>
        send('x402.response', {
          ...header(request),
          payment_id: `0x${'1'.repeat(64)}`,
          tx_hash: '',
          body: Buffer.from('result').toString('base64'),
          seller_did: '',
          seller_token_id: '',
          ...changes,
        }),
      refuse: (request, error_name, changes = {}) =>
        send('x402.error', {
          ...header(request),
          error_code: 1,
          error_name,
          message: 'no',
          retryable: false,
          ...changes,
        }),
    }
    this.#script(scripted).catch((error: Error) => theirs.abort(error))
  }
}
