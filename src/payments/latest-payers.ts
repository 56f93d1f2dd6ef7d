type LatestPayersOptions = {
  peersMax: number
  /** Peers of one payer. Beyond it the payer's oldest peer is dropped. */
  perPayerMax: number
  /** True while the payer has open payments. Its peers are kept until it has none. */
  owes(payer: string): boolean
}

/**
 * The latest payer of each peer, latest peer last. Peer ids cost nothing: a payer may use a new one for each call. So
 * each payer has room for a few, and the peers of a payer that owes are never dropped for others (T6).
 */
export class LatestPayers {
  readonly #options: LatestPayersOptions
  readonly #payers = new Map<string, string>()
  readonly #peers = new Map<string, Set<string>>()
  /** The last search found no peer to drop. */
  #isFull = false

  constructor(options: LatestPayersOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#payers.size
  }

  of(peerId: string): string | undefined {
    return this.#payers.get(peerId)
  }

  /** True if this peer is unknown and cannot be remembered. */
  isNoRoomFor(peerId: string): boolean {
    return this.#isFull && !this.#payers.has(peerId)
  }

  /** @returns false if there is no room, because every known payer owes */
  meet(peerId: string, payer: string): boolean {
    this.#forget(peerId)
    const own = this.#peers.get(payer)
    if (own !== undefined && own.size >= this.#options.perPayerMax) this.#forget(own.values().next().value!)
    else if (this.#payers.size >= this.#options.peersMax && !this.#dropOne()) return false
    this.#payers.set(peerId, payer)
    const peers = this.#peers.get(payer) ?? new Set()
    this.#peers.set(payer, peers.add(peerId))
    return true
  }

  /** The last open payment of a payer has ended. */
  settled(): void {
    this.#isFull = false
  }

  #dropOne(): boolean {
    if (this.#isFull) return false
    for (const [peerId, payer] of this.#payers) {
      if (this.#options.owes(payer)) continue
      this.#forget(peerId)
      return true
    }
    this.#isFull = true
    return false
  }

  #forget(peerId: string): void {
    const payer = this.#payers.get(peerId)
    if (payer === undefined) return
    this.#payers.delete(peerId)
    this.#isFull = false
    const peers = this.#peers.get(payer)
    peers?.delete(peerId)
    if (peers?.size === 0) this.#peers.delete(payer)
  }
}
