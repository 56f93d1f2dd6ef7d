import { setTimeout as delay } from 'node:timers/promises'
import type { Random } from './random.ts'
import { type AgentName, agents, type World } from './world.ts'

const ANSWER_MS = 40_000
const AT_ONCE = 3

/** A purchase that a buyer's users want once, however often they repeat the request. */
export type Wish = {
  readonly id: string
  readonly buyer: string
  readonly kind: 'execute' | 'order' | 'workflow'
  readonly agent: AgentName
  readonly path: string
  readonly body: object
  asked: number
  /** True when no user waits for it any more. */
  ended: boolean
  /** The last answer, and the response of a completed execution. */
  answer: { status: number; body: Record<string, unknown> } | undefined
}

type Known = { id: string; name: string; seller_id: string }

/** Simulated users who buy continuously, in an order that a seed decides. */
export class Load {
  readonly wishes: Wish[] = []
  readonly #world: World
  readonly #random: Random
  readonly #prefix: string
  #agents: Known[] = []
  #isIdempotent = false
  #isOver = false
  #people: Promise<void>[] = []
  #next = 0

  constructor(world: World, random: Random, prefix: string) {
    this.#world = world
    this.#random = random
    this.#prefix = prefix
  }

  /** Waits until every buyer knows every agent, and starts to buy. */
  async start(): Promise<void> {
    const { sellers, buyers } = this.#world
    const wanted = sellers.length * Object.keys(agents).length
    for (const buyer of buyers) {
      for (const from = performance.now(); ; await delay(100)) {
        const known = (await this.#get(buyer, '/agents').catch(() => [])) as Known[]
        this.#agents = known.filter(({ name }) => Object.hasOwn(agents, name))
        if (this.#agents.length >= wanted) break
        if (performance.now() - from > 60_000) throw new Error(`${buyer} knows ${known.length} of ${wanted} agents`)
      }
    }
    const document = JSON.stringify(await this.#get(buyers[0]!, '/openapi.json').catch(() => ({})))
    this.#isIdempotent = /idempotency-key/i.test(document)
    for (const buyer of buyers) {
      for (let person = 0; person < AT_ONCE; person++) this.#people.push(this.#person(buyer, this.#random.fork()))
    }
  }

  /** Starts nothing new. Repeats open requests until they end or the limit passes. */
  async stop(limitMs: number): Promise<void> {
    this.#isOver = true
    const timer = new AbortController()
    const late = delay(limitMs, undefined, { signal: timer.signal }).catch(() => {})
    await Promise.race([Promise.all(this.#people), late])
    timer.abort()
  }

  /** Makes one more purchase of each buyer from each seller. @returns what failed */
  async buyOnceMore(limitMs: number): Promise<string[]> {
    const { buyers, sellers } = this.#world
    const failures: string[] = []
    const buy = async (buyer: string, seller: string) => {
      const { peerId } = this.#world.member(seller).node
      const agent = this.#agents.find(({ name, seller_id }) => name === 'repeat' && seller_id === peerId)!
      let said = 'nothing'
      for (const from = performance.now(); performance.now() - from < limitMs; await delay(1_000)) {
        const wish = this.#wish(buyer, 'execute', agent)
        await this.#ask(wish)
        if (wish.answer?.status === 200) return
        said = wish.answer === undefined ? 'no answer' : `${wish.answer.status} ${JSON.stringify(wish.answer.body)}`
        // A used-up budget is not a fault.
        if (/BUDGET/.test(said)) return
      }
      failures.push(`${buyer} cannot buy from ${seller} any more: ${said.slice(0, 400)}`)
    }
    await Promise.all(buyers.flatMap((buyer) => sellers.map((seller) => buy(buyer, seller))))
    return failures
  }

  async #person(buyer: string, random: Random): Promise<void> {
    while (!this.#isOver) {
      const agent = random.pick(this.#agents)
      const kind = random.pick(['execute', 'execute', 'execute', 'order', 'workflow'] as const)
      const wish = this.#wish(buyer, kind, agent, random)
      for (let turn = 0; !wish.ended; turn++) {
        await this.#ask(wish)
        if (!wish.ended) await delay(Math.min(300 * 2 ** Math.min(turn, 4), 3_000))
        if (!this.#isIdempotent && wish.answer === undefined) wish.ended = true
      }
      await delay(random.between(20, 250))
    }
  }

  #wish(buyer: string, kind: Wish['kind'], agent: Known, random?: Random): Wish {
    const id = `${this.#prefix}-${++this.#next}`
    const name = agent.name as AgentName
    const fails = random !== undefined && random.next() < 0.3 ? 'fail' : 'work'
    const task = `${id}|${fails} ${'.'.repeat(random?.between(0, 2_000) ?? 0)}`
    const others = this.#agents.filter((other) => other.name === name && other.id !== agent.id)
    const second = random?.pick(this.#agents) ?? agent
    const bodies = {
      execute: { task },
      order: { agent_id: agent.id, price: '0.05', task },
      workflow: {
        input: fails,
        steps: [
          { id: 'a', agent_id: agent.id, input: `${id}a|{{input}}`, fallback: others.map((other) => other.id) },
          { id: 'b', agent_id: second.id, input: `${id}b|{{steps.a.output}}`, depends_on: ['a'] },
        ],
      },
    }
    const paths = { execute: `/agents/${agent.id}/execute`, order: '/orders', workflow: '/workflows' }
    const wish: Wish = {
      ...{ id, buyer, kind, agent: name, path: paths[kind], body: bodies[kind] },
      ...{ asked: 0, ended: false, answer: undefined },
    }
    this.wishes.push(wish)
    return wish
  }

  /** Sends a request once, with the key of the wish, then follows an order or workflow to its end. */
  async #ask(wish: Wish): Promise<void> {
    wish.asked++
    try {
      const answer = await this.#post(wish.buyer, wish.path, wish.body, wish.id)
      wish.answer = answer
      const { status, body } = answer
      if (wish.kind === 'execute' || status >= 400) {
        const isUnclear = status >= 500 || body.code === 'RESULT_PENDING' || body.retryable === true
        wish.ended = status < 400 || !isUnclear || !this.#isIdempotent
        return
      }
      await this.#follow(wish, `${wish.path}/${body.id}`)
    } catch {
      // The node was down, or stopped during the request.
    }
  }

  async #follow(wish: Wish, path: string): Promise<void> {
    for (;;) {
      const record = (await this.#get(wish.buyer, path).catch(() => undefined)) as { status?: string } | undefined
      if (record !== undefined && ['completed', 'failed', 'cancelled', 'canceled'].includes(record.status ?? '')) break
      await delay(500)
    }
    wish.ended = true
  }

  async #get(name: string, path: string): Promise<unknown> {
    const { url } = this.#world.member(name).node
    const response = await fetch(`${url}${path}`, { signal: AbortSignal.timeout(10_000) })
    return response.json()
  }

  async #post(name: string, path: string, body: object, key: string) {
    const { url } = this.#world.member(name).node
    const response = await fetch(`${url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(ANSWER_MS),
    })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
}
