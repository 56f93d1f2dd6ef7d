import { randomUUID } from 'node:crypto'
import type { Stream } from '@libp2p/interface'
import { MarketplaceAnswer, MarketplaceExecute } from '../schema/marketplace.ts'
import { DATA_BYTES_MAX, encodeTextFrame, type Frame } from './frame.ts'
import type { FramedStream } from './framed-stream.ts'
import { PeerError, peerErrorFrom } from './peer-error.ts'
import { RawReader } from './raw-reader.ts'
import { type InboundStream, refer, type X402ServerDeps } from './x402/exchange.ts'
import { runFree } from './x402/free-run.ts'
import { checkTask, jsonOf, readFrame } from './x402/messages.ts'

const LENGTH_BYTES = 4

type MarketplaceServerDeps = Pick<
  X402ServerDeps,
  'clock' | 'logger' | 'didOf' | 'agents' | 'slots' | 'exchanges' | 'limits'
>

/**
 * Serves the protocol for free agents (D35): requests are typed frames, answers are raw.
 *
 * ```bnf
 * answer ::= length(u32be) json
 * ```
 * Requests are answered one after another, until the client ends its side.
 */
export async function serveMarketplace(
  { stream, peerId }: InboundStream,
  deps: MarketplaceServerDeps,
  signal: AbortSignal,
): Promise<void> {
  try {
    for (;;) {
      const frame = await readFrame(stream, signal)
      if (frame === undefined) break
      await stream.writeRaw(encodeAnswer(await answer(frame, peerId, deps, signal)), signal)
    }
    await stream.close()
  } catch (error) {
    if (!(error instanceof PeerError)) return stream.abort(error as Error)
    await stream.writeRaw(encodeAnswer(errorAnswer(error)), signal).catch(() => {})
    await stream.close().catch(() => {})
  }
}

export async function refuseMarketplace(stream: FramedStream, error: PeerError, signal: AbortSignal): Promise<void> {
  await stream.writeRaw(encodeAnswer(errorAnswer(error)), signal)
  await stream.close()
}

async function answer(
  frame: Frame,
  peerId: string,
  deps: MarketplaceServerDeps,
  signal: AbortSignal,
): Promise<MarketplaceAnswer> {
  let correlationId: string | undefined
  try {
    if (!deps.limits.takeRequest(peerId))
      throw new PeerError('OVERLOADED', 'too many requests from this peer; slow down')
    const request = parseExecute(frame)
    correlationId = request.correlation_id ?? randomUUID()
    return { output: await execute({ ...request, correlationId }, peerId, deps, signal) }
  } catch (error) {
    if (error instanceof PeerError) return errorAnswer(error)
    deps.logger.error({ err: error, correlation_id: correlationId }, 'a free call failed')
    return errorAnswer(new PeerError('EXECUTION_FAILED', 'the seller failed'))
  }
}

async function execute(
  request: { agent_id: string; input: string; correlationId: string; mayRefer: boolean },
  peerId: string,
  deps: MarketplaceServerDeps,
  signal: AbortSignal,
): Promise<string> {
  const agent = deps.agents.find(request.agent_id)
  if (agent === undefined) throw new PeerError('UNKNOWN_RESOURCE', `this node has no agent ${request.agent_id}`)
  if (agent.amount > 0n) {
    throw new PeerError('PAYMENT_REQUIRED', 'this agent is paid: call it over /x402/libp2p/1.0.0')
  }
  const { input, correlationId } = request
  checkTask(input)
  refer(agent, request.mayRefer)
  const caller = { callerDid: deps.didOf(peerId), correlationId, signal, mayMove: request.mayRefer }
  return runFree(agent, input, caller, deps)
}

/** Makes one call as the client of the protocol. @throws PeerError that the seller sends */
export async function callMarketplace(
  stream: Stream,
  call: { agentId: string; input: string; correlationId: string; mayRefer?: boolean },
  signal: AbortSignal,
): Promise<string> {
  const reader = new RawReader(stream)
  const { agentId, input, correlationId, mayRefer } = call
  const request = { agent_id: agentId, input, correlation_id: correlationId, ...(mayRefer && { may_refer: true }) }
  stream.send(encodeTextFrame('execute', JSON.stringify(request)))
  const length = Buffer.from(await reader.read(LENGTH_BYTES, signal)).readUInt32BE(0)
  if (length > DATA_BYTES_MAX)
    throw new PeerError('INVALID_MESSAGE', `the seller announces an answer of ${length} bytes`)
  const answered = parseAnswer(await reader.read(length, signal))
  if ('error' in answered) throw peerErrorFrom({ ...answered.error, number: answered.error.code })
  return answered.output
}

function parseExecute(frame: Frame) {
  if (frame.type !== 'execute')
    throw new PeerError('INVALID_MESSAGE', `unknown message type ${JSON.stringify(frame.type)}`)
  const parsed = MarketplaceExecute.safeParse(jsonOf(frame.data))
  if (parsed.success) return parsed.data
  throw new PeerError('INVALID_MESSAGE', parsed.error.issues.map((issue) => issue.message).join('; '))
}

function parseAnswer(bytes: Uint8Array): MarketplaceAnswer {
  const parsed = MarketplaceAnswer.safeParse(jsonOf(bytes))
  if (parsed.success) return parsed.data
  throw new PeerError('INVALID_MESSAGE', 'the answer of the seller has neither an output nor an error')
}

function errorAnswer(error: PeerError): MarketplaceAnswer {
  return {
    error: {
      code: error.errorCode,
      name: error.code,
      message: error.message.slice(0, 1000),
      retryable: error.retryable,
    },
  }
}

function encodeAnswer(answered: MarketplaceAnswer): Uint8Array {
  const text = JSON.stringify(answered)
  if (Buffer.byteLength(text) > DATA_BYTES_MAX) {
    return encodeAnswer(errorAnswer(new PeerError('EXECUTION_FAILED', 'the result is too large to be sent')))
  }
  const bytes = Buffer.allocUnsafe(LENGTH_BYTES + Buffer.byteLength(text))
  bytes.writeUInt32BE(bytes.length - LENGTH_BYTES, 0)
  bytes.write(text, LENGTH_BYTES)
  return bytes
}
