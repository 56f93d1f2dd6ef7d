import { createParts, type Part } from '../part.ts'
import type { Question, Seller } from './client.ts'

export type Facilitator = 'http' | 'in-process'
export type SellerPart = { seller: Seller; part: Part }
export type Parts = Awaited<ReturnType<typeof startParts>>

/** Starts the processes of the bench. */
export async function startParts({
  profileDir,
  facilitator: where,
}: {
  profileDir?: string | undefined
  facilitator: Facilitator
}) {
  const { start, stop } = await createParts(profileDir)
  try {
    const facilitator = where === 'http' ? await start('./paid-call/facilitator.ts') : undefined
    const set = { facilitatorUrl: facilitator?.ready.url ?? '' }
    const ours = await start('./doors/public-seller.ts', set)
    const express = await start('./paid-call/http-seller.ts', set)
    const floor = await start('./doors/floor-seller.ts', set)
    const client = await start('./doors/client.ts')
    const sellers = {
      ours: { part: ours, seller: { url: ours.ready.url ?? '', task: 'task', result: 'result' } },
      '@x402/express': { part: express, seller: { url: express.ready.url ?? '', task: 'input', result: 'output' } },
      floor: { part: floor, seller: { url: floor.ready.url ?? '', task: 'input', result: 'output' } },
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
