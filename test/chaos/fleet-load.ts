import { setTimeout as delay } from 'node:timers/promises'
import type { FleetWorld } from './fleet-world.ts'
import type { Wish } from './load.ts'

const ANSWER_MS = 60_000
const AGAIN_MS = 300
/** Every so manieth wish is asked for at all processes of the buyer in the same moment. */
const EVERYWHERE_EACH = 8

/** People who want some tasks done once each, and ask any process of the buyer until it is known what became of them. */
export class FleetLoad {
  readonly wishes: Wish[] = []
  readonly #world: FleetWorld
  readonly #agentId: string
  #turn = 0
  #ended = 0

  private constructor(world: FleetWorld, agentId: string) {
    this.#world = world
    this.#agentId = agentId
  }

  /** Waits until every process of the buyer knows the agent. */
  static async open(world: FleetWorld): Promise<FleetLoad> {
    let agentId: string | undefined
    for (const { url } of world.buyer.nodes) {
      for (const from = performance.now(); ; await delay(100)) {
        const known = (await fetch(`${url}/agents`).then((response) => response.json())) as Record<string, string>[]
        agentId = known.find((one) => one.seller_id === world.seller.peerId)?.id
        if (agentId !== undefined) break
        if (performance.now() - from > 60_000) throw new Error('the buyer does not find the agent of the seller')
      }
    }
    return new FleetLoad(world, agentId!)
  }

  /** How many wishes have come to an end. */
  get ended(): number {
    return this.#ended
  }

  /** Wants `count` tasks, so many at once. Resolves when all have ended, or rejects after `limitMs`. */
  async want(count: number, atOnce: number, limitMs: number): Promise<void> {
    const deadline = performance.now() + limitMs
    const first = this.wishes.length
    const left = Array.from({ length: count }, (_, index) => this.#wish(first + index)).values()
    const person = async () => {
      for (const wish of left) {
        while (!wish.ended && performance.now() < deadline) {
          await this.#ask(wish)
          if (!wish.ended) await delay(AGAIN_MS)
        }
        this.#ended += 1
      }
    }
    await Promise.all(Array.from({ length: atOnce }, person))
  }

  #wish(number: number): Wish {
    const wish: Wish = {
      ...{ id: `w${number}`, buyer: 'buyer', kind: 'execute', agent: 'repeat' },
      ...{ path: `/agents/${this.#agentId}/execute`, body: { task: `w${number}|work` } },
      ...{ asked: 0, ended: false, answer: undefined },
    }
    this.wishes.push(wish)
    return wish
  }

  async #ask(wish: Wish): Promise<void> {
    wish.asked += 1
    const { nodes } = this.#world.buyer
    const isFirst = wish.asked === 1 && this.wishes.indexOf(wish) % EVERYWHERE_EACH === 0
    const asked = isFirst ? nodes : [nodes[this.#turn++ % nodes.length]!]
    const answers = await Promise.all(asked.map(({ url }) => this.#post(url, wish).catch(() => undefined)))
    // The one that says what became of it counts.
    const answer =
      answers.find((one) => one !== undefined && !isUnclear(one)) ?? answers.find((one) => one !== undefined)
    if (answer === undefined) return
    wish.answer = answer
    wish.ended = !isUnclear(answer)
  }

  async #post(url: string, { path, body, id }: Wish): Promise<NonNullable<Wish['answer']>> {
    const response = await fetch(`${url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': id },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(ANSWER_MS),
    })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
}

/**
 * Whether the same request must be sent again to learn what becomes of it. What a seller has refused is over. So is what
 * reached no seller: its key names the order that failed, unpaid.
 */
function isUnclear({ status, body }: NonNullable<Wish['answer']>): boolean {
  if (status < 400 || body.error_code !== undefined || body.code === 'SELLER_UNREACHABLE') return false
  return body.retryable !== false || body.code === 'STORE_IN_DOUBT' || body.code === 'RESULT_PENDING'
}
