import type { Stream } from '@libp2p/interface'
import { streamPair } from '@libp2p/utils'
import { CodedError } from '../../src/lib/errors.ts'
import type { ReplicaHost } from '../../src/listings/replica.ts'
import type { Verdict } from '../../src/p2p/host.ts'

type Receive = (data: Uint8Array, fromPeerId: string) => Promise<Verdict>
type Handle = (stream: Stream, peerId: string) => void

/** A network in memory. Tests connect the peers by hand. Gossip floods along these links if validators accept it. */
export class FakeNetwork {
  readonly #hosts = new Map<string, FakeHost>()

  host(peerId: string): FakeHost {
    const host = new FakeHost(peerId, this.#hosts)
    this.#hosts.set(peerId, host)
    return host
  }

  connect(a: FakeHost, b: FakeHost): void {
    a.connected.add(b.peerId)
    b.connected.add(a.peerId)
    a.told(b.peerId)
    b.told(a.peerId)
  }

  disconnect(a: FakeHost, b: FakeHost): void {
    a.connected.delete(b.peerId)
    b.connected.delete(a.peerId)
  }
}

export class FakeHost implements ReplicaHost {
  readonly peerId: string
  readonly connected = new Set<string>()
  /** The verdict on each received message. */
  readonly verdicts: Verdict[] = []
  /** Messages that this host published. Forwarded messages are not included. */
  readonly published: Uint8Array[] = []
  /** While true, the host loses all its gossip in both directions. */
  deaf = false
  /** While false, gossip has no neighbor, as for a moment after a new connection. */
  linked = true
  announced: string[]
  /** The address from which each peer connects. */
  readonly sites = new Map<string, string>()
  readonly #hosts: ReadonlyMap<string, FakeHost>
  readonly #handlers = new Map<string, Handle>()
  readonly #connectListeners = new Set<(peerId: string) => void>()
  readonly #addressListeners = new Set<() => void>()
  readonly #seen = new Set<string>()
  #receive: Receive | undefined

  constructor(peerId: string, hosts: ReadonlyMap<string, FakeHost>) {
    this.peerId = peerId
    this.#hosts = hosts
    this.announced = [`/ip4/127.0.0.1/tcp/4001/p2p/${peerId}`]
  }

  addresses(): string[] {
    return this.announced
  }

  move(addresses: string[]): void {
    this.announced = addresses
    for (const listener of this.#addressListeners) listener()
  }

  siteOf(peerId: string): string | undefined {
    return this.sites.get(peerId)
  }

  peers() {
    return [...this.connected].map((peerId) => ({ peerId, addresses: [], direction: 'outbound' as const }))
  }

  async handle(protocol: string, handler: Handle): Promise<void> {
    this.#handlers.set(protocol, handler)
  }

  async openStream(peer: { peerId: string }, protocol: string): Promise<Stream> {
    if (!this.connected.has(peer.peerId)) throw new CodedError('PEER_UNREACHABLE', 'not connected')
    const handler = this.#hosts.get(peer.peerId)?.handlerOf(protocol)
    if (handler === undefined) throw new CodedError('PROTOCOL_UNSUPPORTED', protocol)
    const [ours, theirs] = await streamPair({ protocol })
    handler(theirs, this.peerId)
    return ours
  }

  handlerOf(protocol: string): Handle | undefined {
    return this.#handlers.get(protocol)
  }

  subscribe(_topic: string, receive: Receive): void {
    this.#receive = receive
  }

  async publish(_topic: string, data: Uint8Array): Promise<number> {
    if (this.linked === false) return 0
    this.published.push(data)
    this.#seen.add(Buffer.from(data).toString('base64'))
    await this.#pass(data)
    return this.connected.size
  }

  onPeerConnect(listener: (peerId: string) => void): () => void {
    this.#connectListeners.add(listener)
    return () => this.#connectListeners.delete(listener)
  }

  onAddressesChange(listener: () => void): () => void {
    this.#addressListeners.add(listener)
    return () => this.#addressListeners.delete(listener)
  }

  told(peerId: string): void {
    for (const listener of this.#connectListeners) listener(peerId)
  }

  /** Hands a neighbor's message to the validator once, as gossipsub does. */
  async deliver(data: Uint8Array, fromPeerId: string): Promise<Verdict | undefined> {
    const key = Buffer.from(data).toString('base64')
    if (this.deaf || this.#seen.has(key) || this.#receive === undefined) return undefined
    this.#seen.add(key)
    const verdict = await this.#receive(data, fromPeerId)
    this.verdicts.push(verdict)
    if (verdict === 'accept') await this.#pass(data)
    return verdict
  }

  async #pass(data: Uint8Array): Promise<void> {
    if (this.deaf) return
    await Promise.all([...this.connected].map((peerId) => this.#hosts.get(peerId)?.deliver(data, this.peerId)))
  }
}
