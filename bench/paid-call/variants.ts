import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Load, LoadPlan } from '../load.ts'
import { type Part, startPart } from '../part.ts'

export const variantNames = [
  'ours',
  'floor A',
  'floor B',
  'floor C',
  'HTTP',
  'ours (new streams)',
  'floor A (new streams)',
  'floor B (new streams)',
] as const
export type VariantName = (typeof variantNames)[number]

/** CPU time per call, in µs. It stays meaningful when the machine is busy with other work. */
export type Cpu = { buyer: number; seller: number; facilitator: number }
export type Variant = { name: VariantName; measure(plan: LoadPlan): Promise<Load & { cpuMicros: Cpu }> }

export type VariantsOptions = {
  transport: 'tcp' | 'quic'
  facilitator: 'in-process' | 'http'
  profileDir: string | undefined
}

/** Starts every process of the bench. Each database has its own directory in the system's temporary directory. */
export async function startVariants({ transport, facilitator: where, profileDir }: VariantsOptions) {
  const directory = await mkdtemp(join(tmpdir(), 'stoa-bench-'))
  const parts: Part[] = []
  const start = async (file: string, setup: Record<string, string> = {}) => {
    const dataDir = await mkdtemp(join(directory, 'part-'))
    const part = await startPart({ file: `./paid-call/${file}`, setup: { dataDir, transport, ...setup }, profileDir })
    parts.push(part)
    return part
  }
  const stop = async () => {
    for (const part of parts.toReversed()) await part.stop()
    await rm(directory, { recursive: true, force: true })
  }

  try {
    const facilitator = where === 'http' ? await start('facilitator.ts') : undefined
    const facilitatorUrl = facilitator?.ready.url ?? ''
    const stoaSeller = await start('stoa-seller.ts', { facilitatorUrl })
    const { address = '', agentId = '' } = stoaSeller.ready
    const stoaBuyer = await start('stoa-buyer.ts', { seller: address, agentId })
    const floorSeller = await start('floor-seller.ts')
    const floorBuyer = await start('floor-buyer.ts', { seller: floorSeller.ready.address ?? '' })
    const httpSeller = await start('http-seller.ts', { facilitatorUrl })
    const httpBuyer = await start('http-buyer.ts', { seller: httpSeller.ready.url ?? '' })

    const ours = { buyer: stoaBuyer, seller: stoaSeller, facilitator }
    const floor = { buyer: floorBuyer, seller: floorSeller, facilitator }
    const http = { buyer: httpBuyer, seller: httpSeller, facilitator }
    const variants: Variant[] = [
      variant('ours', ours, { reuse: true }),
      variant('floor A', floor, { floor: 'A', reuse: true }),
      variant('floor B', floor, { floor: 'B', reuse: true }),
      variant('floor C', floor, { floor: 'C', reuse: true }),
      variant('HTTP', http, {}),
      variant('ours (new streams)', ours, { reuse: false }),
      variant('floor A (new streams)', floor, { floor: 'A', reuse: false }),
      variant('floor B (new streams)', floor, { floor: 'B', reuse: false }),
    ]
    return { variants, directory, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

type Parts = { buyer: Part; seller: Part; facilitator: Part | undefined }

function variant(name: VariantName, parts: Parts, question: Record<string, unknown>): Variant {
  const cpu = () => Promise.all([parts.buyer.cpuMs(), parts.seller.cpuMs(), parts.facilitator?.cpuMs() ?? 0])
  return {
    name,
    async measure(plan) {
      const before = await cpu()
      const load = await parts.buyer.ask<Load>({ ...question, ...plan })
      const after = await cpu()
      const micros = (index: number) => ((after[index]! - before[index]!) * 1000) / load.calls
      return { ...load, cpuMicros: { buyer: micros(0), seller: micros(1), facilitator: micros(2) } }
    },
  }
}
