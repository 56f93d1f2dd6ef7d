import { END, KEY_BYTES, START } from '../../src/protocols/sync/reconcile/element-key.ts'
import { decodeRanges, encodeRanges, type Range } from '../../src/protocols/sync/reconcile/range-message.ts'
import { SALT_BYTES } from '../../src/protocols/sync/reconcile/session-hash.ts'
import type { Random } from './random.ts'

/**
 * The behavior of liars, who also forward nothing:
 *
 * - forger: holds and offers versions that their owners never signed
 * - replayer: stopped learning when the simulation began, and offers old versions as new
 * - futurist: holds and offers versions of next year
 * - babbler: sends bytes that are not a message
 * - endless: answers every question with more questions, forever
 * - denier: says that all is equal, whatever the question
 */
export const liarKinds = ['forger', 'replayer', 'futurist', 'babbler', 'endless', 'denier'] as const
export type LiarKind = (typeof liarKinds)[number]

/** True for liars who lie only about listings: they reconcile by the protocol, over made-up sets. */
export function speaksTrue(kind: LiarKind): boolean {
  return kind === 'forger' || kind === 'replayer' || kind === 'futurist'
}

/** The first message of a liar who breaks the protocol. */
export function openFalsely(kind: LiarKind, random: Random): Uint8Array {
  const head = Buffer.concat([Uint8Array.of(1), random.bytes(SALT_BYTES)])
  if (kind === 'babbler') return random.bytes(200)
  if (kind === 'denier') return Buffer.concat([head, encodeRanges([{ mode: 'equal', until: END }])])
  return Buffer.concat([head, encodeRanges([{ mode: 'fingerprint', until: END, fingerprint: random.bytes(8) }])])
}

export function answerFalsely(kind: LiarKind, message: Uint8Array, isFirst: boolean, random: Random): Uint8Array {
  if (kind === 'babbler') return random.bytes(200)
  if (kind === 'denier') return encodeRanges([{ mode: 'equal', until: END }])
  return askOn(isFirst ? message.subarray(1 + SALT_BYTES) : message, random)
}

/** Asks about all of each range except its last place, and leaves lists unanswered. */
function askOn(message: Uint8Array, random: Random): Uint8Array {
  const said: Range[] = []
  let from = START
  for (const { mode, until } of decodeRanges(message)) {
    if (mode === 'fingerprint') {
      if (from.some((byte, index) => byte !== (said.at(-1)?.until ?? START)[index]))
        said.push({ mode: 'pass', until: from })
      said.push({ mode: 'fingerprint', until: justBefore(until), fingerprint: random.bytes(8) })
    }
    from = until
  }
  return encodeRanges(said)
}

function justBefore(bound: Uint8Array): Uint8Array {
  const before = bound.slice()
  if (bound.every((byte, index) => byte === END[index])) {
    // The latest time that an element can have.
    before.fill(0, 6)
    before[5] = 0xfe
    return before
  }
  let index = KEY_BYTES - 1
  while (before[index] === 0) before[index--] = 0xff
  before[index]! -= 1
  return before
}
