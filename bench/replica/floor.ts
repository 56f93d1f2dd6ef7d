import { availableParallelism } from 'node:os'
import { readEnvelope } from '../../src/p2p/envelope.ts'
import { checkSignature } from '../../src/p2p/signature.ts'
import type { Database } from '../../src/store/database.ts'

export type Floor = { listings: number; ms: number; cpuMs: number }

/** The floor: only checks the signatures of all stored listings, on all cores. */
export async function verifyAll(database: Database): Promise<Floor> {
  const rows = database.prepare('SELECT envelope FROM listings').all() as { envelope: Uint8Array }[]
  const checks = rows.map(({ envelope }) => readEnvelope(envelope).check()).values()
  const before = process.cpuUsage()
  const from = performance.now()
  const inTurn = async () => {
    for (const check of checks) if (!(await checkSignature(check))) throw new Error('a signature is false')
  }
  await Promise.all(Array.from({ length: 2 * availableParallelism() }, inTurn))
  const ms = performance.now() - from
  const { user, system } = process.cpuUsage(before)
  return { listings: rows.length, ms, cpuMs: (user + system) / 1000 }
}
