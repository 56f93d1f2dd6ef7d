import { randomUUID } from 'node:crypto'
import type { Wallet } from '../../payments/wallet.ts'
import type { FramedStream } from '../../protocols/framed-stream.ts'
import { PeerError } from '../../protocols/peer-error.ts'
import type { StreamPool } from '../../protocols/streams.ts'
import { sendX402Funds } from '../../protocols/x402/client.ts'
import { CHANNEL_SCHEME, type ChannelPayment } from '../../schema/channel.ts'
import type { Network } from '../../schema/primitives.ts'
import { onStream } from '../stream-lease.ts'
import type { ChannelLine } from './channel-line.ts'

/** A seller waits until the chain shows a refund (payments/channels/channel-relay.ts). */
const ASK_TIMEOUTS_MS = { deposit: 20_000, refund: 60_000 }
/** Processes of the seller that are asked. */
const PROCESSES_MAX = 4

export type FundsDeps = {
  wallet: Pick<Wallet, 'asset' | 'address'>
  streams: StreamPool
  callerDid: string
  addrsOf(agentId: string): readonly string[]
}

type FundsRequest = { method: 'deposit' | 'refund'; channel: ChannelPayment }

/** Asks the seller for what is free in a channel. What it answers is not believed. @throws what it answers */
export async function askRefund(line: ChannelLine, deps: FundsDeps, signal: AbortSignal): Promise<void> {
  const channel = { config: line.channel.config, ...line.forFunds() }
  await sendFunds(line, { method: 'refund', channel }, deps, signal)
}

/** Sends a request about the money of a channel, which runs no agent. @throws PeerError, or what broke the connection */
export async function sendFunds(
  line: ChannelLine,
  asked: FundsRequest,
  deps: FundsDeps,
  stopping?: AbortSignal,
): Promise<void> {
  const limit = AbortSignal.timeout(ASK_TIMEOUTS_MS[asked.method])
  const signal = stopping === undefined ? limit : AbortSignal.any([stopping, limit])
  let instead: FramedStream | undefined
  for (let processes = 1; ; processes++) {
    const used: { stream?: FramedStream } = {}
    try {
      return await send(line, { ...asked, instead, used }, deps, signal)
    } catch (error) {
      signal.throwIfAborted()
      const isElsewhere = error instanceof PeerError && error.channel?.reason === 'elsewhere'
      if (!isElsewhere || used.stream === undefined || processes >= PROCESSES_MAX) throw error
      instead = used.stream
    }
  }
}

function send(
  line: ChannelLine,
  {
    method,
    channel,
    instead,
    used,
  }: FundsRequest & { instead: FramedStream | undefined; used: { stream?: FramedStream } },
  { wallet, streams, callerDid, addrsOf }: FundsDeps,
  signal: AbortSignal,
) {
  const { sellerId, agentId } = line
  const seller = { peerId: sellerId, addrs: agentId === undefined ? [] : addrsOf(agentId) }
  const call = { correlationId: randomUUID(), resource: agentId ?? 'any', callerDid }
  const payment = envelopeOf(wallet, channel)
  return onStream(
    { seller, streams, instead },
    ({ stream }) => {
      used.stream = stream
      return sendX402Funds(stream, call, { method, payment }, signal)
    },
    signal,
  )
}

function envelopeOf({ asset, address }: Pick<Wallet, 'asset' | 'address'>, channel: ChannelPayment) {
  const [x402_version, server_nonce] = [2, 'preemptive'] as const
  const network: Network = asset.network
  return { x402_version, scheme: CHANNEL_SCHEME, network, server_nonce, payer: address, channel }
}
