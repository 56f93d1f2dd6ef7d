import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Part, startPart } from '../part.ts'
import type { Question, Seller } from './client.ts'

export type Facilitator = 'http' | 'in-process'
export type SellerPart = { seller: Seller; part: Part }
export type Parts = Awaited<ReturnType<typeof startParts>>

/** Starts the processes of the bench. Every database has a directory of its own in the system's temporary directory. */
export async function startParts({
  profileDir,
  facilitator: where,
}: {
  profileDir?: string | undefined
  facilitator: Facilitator
}) {
  const directory = await mkdtemp(join(tmpdir(), 'stoa-bench-'))
  const stops: (() => Promise<void>)[] = []
  const start = async (file: string, setup: Record<string, string> = {}) => {
    const dataDir = await mkdtemp(join(directory, 'part-'))
    const part = await startPart({ file, setup: { dataDir, ...setup }, profileDir })
    stops.push(part.stop)
    return part
  }
  const stop = async () => {
    for (const each of stops.toReversed()) await each()
    await rm(directory, { recursive: true, force: true })
  }
  try {
    const facilitator = where === 'http' ? await start('./paid-call/facilitator.ts') : undefined
    const set = { facilitatorUrl: facilitator?.ready.url ?? '' }
    const ours = await start('./doors/public-seller.ts', set)
    const express = await start('./paid-call/http-seller.ts', set)
    const client = await start('./doors/client.ts')
    const sellers = {
      ours: { part: ours, seller: { url: ours.ready.url ?? '', task: 'task', result: 'result' } },
      '@x402/express': { part: express, seller: { url: express.ready.url ?? '', task: 'input', result: 'output' } },
    } satisfies Record<string, SellerPart>
    return { start, stop, facilitator, client, sellers }
  } catch (error) {
    await stop()
    throw error
  }
}

export function ask<T = void>(client: Part, question: Question): Promise<T> {
  return client.ask<T>(question)
}
