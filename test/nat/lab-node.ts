import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Settings } from '../../src/config/settings.ts'
import type { ExecutionResult, NodeStatus, PeerStatus } from '../../src/schema/api.ts'
import type { Place } from './lab.ts'

const MAIN = fileURLToPath(new URL('./node.ts', import.meta.url))
/** All nodes of a lab start at once, on a machine that may be busy. */
const READY_MS = 90_000

export type LabNodeOptions = Settings & { dataDir: string; key: string; agent?: { name: string; price: string } }
export type SeenListing = { id: string; name: string; seller_id: string; addrs: string[]; online?: boolean }

type Answers = { status: NodeStatus; peers: PeerStatus[]; listings: SeenListing[]; execute: ExecutionResult }

/** A node that runs in a place of the lab. */
export class LabNode {
  readonly peerId: string
  readonly addresses: string[]
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>()
  readonly #log: string[]
  #last = 0

  private constructor(child: ChildProcess, ready: { peer_id: string; addresses: string[] }, log: string[]) {
    this.#child = child
    this.#log = log
    this.peerId = ready.peer_id
    this.addresses = ready.addresses
  }

  static async start(place: Place, options: LabNodeOptions): Promise<LabNode> {
    const args = ['netns', 'exec', place.name, process.execPath, '--no-warnings', MAIN, JSON.stringify(options)]
    const child = spawn('ip', args, { stdio: ['pipe', 'pipe', 'pipe'] })
    const log: string[] = []
    createInterface({ input: child.stderr! }).on('line', (line) =>
      log.push(`${new Date().toISOString().slice(17)} ${line}`),
    )
    const lines = createInterface({ input: child.stdout! })
    const signal = AbortSignal.timeout(READY_MS)
    const failed = once(child, 'close').then(() => Promise.reject(new Error(`the node ended: ${log.join('\n')}`)))
    const [first] = await Promise.race([once(lines, 'line', { signal }), failed])
    const node = new LabNode(child, JSON.parse(first as string).ready, log)
    failed.catch(() => {})
    lines.on('line', (line) => node.#answered(line))
    return node
  }

  async ask<M extends keyof Answers>(method: M, argument?: unknown): Promise<Answers[M]> {
    const id = ++this.#last
    const waiting = Promise.withResolvers<unknown>()
    this.#waiting.set(id, waiting)
    this.#child.stdin!.write(`${JSON.stringify({ id, method, argument })}\n`)
    return (await waiting.promise) as Answers[M]
  }

  log(): string {
    return this.#log.join('\n')
  }

  /** As a power cut does. */
  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    this.#child.kill('SIGKILL')
    await once(this.#child, 'close')
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const closed = once(this.#child, 'close')
    this.#child.stdin!.end()
    await closed
  }

  #answered(line: string): void {
    const { id, result, error } = JSON.parse(line) as { id: number; result: unknown; error?: string }
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    if (error === undefined) waiting?.resolve(result)
    else waiting?.reject(new Error(error))
  }
}
