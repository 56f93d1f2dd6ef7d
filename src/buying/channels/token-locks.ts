import { largest } from '../../lib/bigints.ts'
import { Lanes } from '../../lib/lane.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { ChannelLine } from './channel-line.ts'
import { lockedIn } from './deposits.ts'
import type { CallPayer } from './place-deposit.ts'

/**
 * What calls of each token have this process lock: a token locks no more than it may spend, at however many sellers. A process
 * that starts anew begins anew. Then only the limit of all deposits holds for what was locked before.
 */
export class TokenLocks {
  readonly #line: (id: Hex) => ChannelLine | undefined
  readonly #channels = new Map<string, Set<Hex>>()
  /** Of deposits at the same time each would see what is left before the others. */
  readonly #lanes = new Lanes()

  constructor(line: (id: Hex) => ChannelLine | undefined) {
    this.#line = line
  }

  /** Makes a deposit that a call asks for. `make` gives the id of its channel. */
  place(payer: CallPayer | undefined, make: (payer: CallPayer | undefined) => Promise<Hex>): Promise<Hex> {
    const { tokenId } = payer ?? {}
    if (payer === undefined || tokenId === undefined) return make(payer)
    return this.#lanes.run(tokenId, async () => {
      const channels = this.#channels.get(tokenId) ?? new Set()
      const left = async () => {
        const all = await payer.left()
        return all === undefined ? undefined : largest(all - this.#lockedIn(channels), 0n)
      }
      const id = await make({ ...payer, left })
      this.#channels.set(tokenId, channels.add(id))
      return id
    })
  }

  #lockedIn(channels: ReadonlySet<Hex>): bigint {
    let sum = 0n
    for (const id of channels) {
      const line = this.#line(id)
      if (line === undefined) continue
      const { network, deposit, channel, moved } = line
      sum += lockedIn([{ ...channel, network, deposit, moved }], network)
    }
    return sum
  }
}
