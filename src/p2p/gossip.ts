import type { GossipSub, GossipSubComponents, Message } from '@libp2p/gossipsub'
import { gossipsub, StrictSign, type TopicValidatorFn, TopicValidatorResult } from '@libp2p/gossipsub'
import type { PeerScoreParams, TopicScoreParams } from '@libp2p/gossipsub/score'
import type { Logger } from '../lib/logger.ts'
import { Pace } from '../lib/pace.ts'
import { orAborted } from '../lib/wait.ts'
import { GOSSIP_BYTES_MAX } from '../schema/limits.ts'
import { type GossipInternals, guardGossip, MESSAGES_PER_TRANSMISSION_MAX } from './libp2p-fixes/gossip-guard.ts'
import { hostIn, siteOf } from './networks.ts'

/**
 * The verdict on a gossiped message. `accept` passes it on. `ignore` drops it. `reject` drops it and lowers the
 * sender's score.
 */
export type Verdict = 'accept' | 'ignore' | 'reject'

/** `fromPeerId` is the peer that passed the message on, not its author. */
export type Receive = (data: Uint8Array, fromPeerId: string) => Promise<Verdict>

/** The longest transmission, in bytes. A peer that asks for missed messages gets many messages in one transmission. */
const TRANSMISSION_BYTES_MAX = MESSAGES_PER_TRANSMISSION_MAX * GOSSIP_BYTES_MAX
/** Other limits of one transmission, at libp2p's defaults. */
const DECODED_MAX = {
  maxSubscriptions: 5000,
  maxIhaveMessageIDs: 5000,
  maxIwantMessageIDs: 5000,
  maxControlMessages: 5000,
  maxIdontwantMessageIDs: 512,
  maxPeerInfos: 16,
}
const UNSENT_BYTES_MAX = 8 * 1024 * 1024
/** Messages judged at once. More are dropped unread. */
const JUDGED_PER_PEER_MAX = 64
const JUDGED_MAX = 1024
const JUDGE_TIMEOUT_MS = 10_000
/** About 15 topics, because libp2p counts each as 1 KiB. */
const TOPIC_BYTES_PER_PEER_MAX = 16 * 1024

/**
 * Scores a topic only by rejected messages: −10 × their number squared, halved in about 25 s. After three in a row, the
 * peer is ignored. The mesh-delivery rule is off, because it would punish everybody on a quiet topic.
 */
const TOPIC_SCORE: TopicScoreParams = {
  topicWeight: 1,
  timeInMeshWeight: 0,
  timeInMeshQuantum: 1000,
  timeInMeshCap: 1,
  firstMessageDeliveriesWeight: 0,
  firstMessageDeliveriesDecay: 0.5,
  firstMessageDeliveriesCap: 1,
  meshMessageDeliveriesWeight: 0,
  meshMessageDeliveriesDecay: 0.5,
  meshMessageDeliveriesCap: 1,
  meshMessageDeliveriesThreshold: 0,
  meshMessageDeliveriesWindow: 0,
  meshMessageDeliveriesActivation: 1000,
  meshFailurePenaltyWeight: 0,
  meshFailurePenaltyDecay: 0.5,
  invalidMessageDeliveriesWeight: -10,
  invalidMessageDeliveriesDecay: 0.97,
}

const results: Record<Verdict, TopicValidatorResult> = {
  accept: TopicValidatorResult.Accept,
  ignore: TopicValidatorResult.Ignore,
  reject: TopicValidatorResult.Reject,
}

/** Topics over GossipSub. Messages are signed, and each is judged before it is passed on. */
export class Gossip {
  readonly #logger: Logger
  readonly #pace: Pace
  readonly #receivers = new Map<string, Receive>()
  readonly #judged = new Map<string, number>()
  #judgedTotal = 0
  #pubsub: GossipSub | undefined
  #started = false

  /** @param deps.pace limits how much of the event loop the work for neighbors takes */
  constructor(deps: { logger: Logger; pace?: Pace }) {
    this.#logger = deps.logger
    this.#pace = deps.pace ?? new Pace()
  }

  /** Creates the libp2p service that this class uses. */
  module(): (components: GossipSubComponents) => GossipSub {
    const create = gossipsub({
      globalSignaturePolicy: StrictSign,
      allowPublishToZeroTopicPeers: true,
      fallbackToFloodsub: false,
      maxInboundDataLength: TRANSMISSION_BYTES_MAX,
      maxOutboundBufferSize: UNSENT_BYTES_MAX,
      // Stop reading from a peer while its last transmission waits for its turn.
      awaitRpcHandler: true,
      decodeRpcLimits: { ...DECODED_MAX, maxMessages: MESSAGES_PER_TRANSMISSION_MAX },
      maxTopicBytesPerPeer: TOPIC_BYTES_PER_PEER_MAX,
      // Many honest nodes share an address, in a demo, a company or a provider's network. libp2p would graylist the
      // eleventh.
      scoreParams: { IPColocationFactorWeight: 0 },
      // Runs before anything is stored. Messages on topics that this node does not listen to would fill the cache.
      dataTransform: {
        inboundTransform: (topic, data) => {
          if (!this.#receivers.has(topic)) throw new Error('not subscribed to this topic')
          return data
        },
        outboundTransform: (_topic, data) => data,
      },
    })
    return (components) => {
      this.#pubsub = create(components)
      guardGossip(this.#pubsub as GossipSub & GossipInternals, {
        pace: this.#pace,
        isWanted: (topic) => this.#receivers.has(topic),
        siteOf: (peer) => {
          const [connection] = components.connectionManager.getConnections(peer)
          return connection && siteOf(hostIn(connection.remoteAddr))
        },
      })
      return this.#pubsub
    }
  }

  /** Listens to a topic, once the host has started. A topic has one receiver. */
  subscribe(topic: string, receive: Receive): void {
    if (this.#receivers.has(topic)) throw new Error(`already subscribed to ${topic}`)
    this.#receivers.set(topic, receive)
    const pubsub = this.#service()
    // A service's options are public but not in its interface type. If they move, the test of `reject` fails.
    const { opts } = pubsub as GossipSub & { opts: { scoreParams: PeerScoreParams } }
    opts.scoreParams.topics[topic] = TOPIC_SCORE
    pubsub.topicValidators.set(topic, this.#validator(topic, receive))
    if (this.#started) pubsub.subscribe(topic)
  }

  /** Sends to the topic's peers and returns their number. Without peers it resolves to 0. */
  async publish(topic: string, data: Uint8Array): Promise<number> {
    if (data.byteLength > GOSSIP_BYTES_MAX) throw new Error(`a gossip message has at most ${GOSSIP_BYTES_MAX} bytes`)
    if (!this.#started) throw new Error('cannot publish: the host is not running')
    const { recipients } = await this.#service().publish(topic, data)
    return recipients.length
  }

  start(): void {
    this.#started = true
    for (const topic of this.#receivers.keys()) this.#service().subscribe(topic)
  }

  stop(): void {
    this.#started = false
  }

  #service(): GossipSub {
    if (this.#pubsub === undefined) throw new Error('gossip is used before its host is built')
    return this.#pubsub
  }

  #validator(topic: string, receive: Receive): TopicValidatorFn {
    return async (peer, message: Message) => {
      const fromPeerId = peer.toString()
      if (message.data.byteLength > GOSSIP_BYTES_MAX) return results.reject
      const judged = this.#judged.get(fromPeerId) ?? 0
      if (judged >= JUDGED_PER_PEER_MAX || this.#judgedTotal >= JUDGED_MAX) return results.ignore
      this.#judged.set(fromPeerId, judged + 1)
      this.#judgedTotal += 1
      try {
        return results[await orAborted(receive(message.data, fromPeerId), AbortSignal.timeout(JUDGE_TIMEOUT_MS))]
      } catch (error) {
        const fields = { operation: topic, peer_id: fromPeerId, err: error }
        this.#logger.error(fields, 'a gossip message could not be judged')
        return results.ignore
      } finally {
        this.#judgedTotal -= 1
        const left = (this.#judged.get(fromPeerId) ?? 1) - 1
        if (left > 0) this.#judged.set(fromPeerId, left)
        else this.#judged.delete(fromPeerId)
      }
    }
  }
}
