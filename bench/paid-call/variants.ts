import type { Load, LoadPlan } from '../load.ts'
import { createParts, type Part } from '../part.ts'
import { type BenchPostgres, startBenchPostgres } from './postgres.ts'
import { TRAFFIC, type Traffic } from './traffic.ts'

const onSqlite = [
  'ours',
  'ours (awaits settlement)',
  'ours (facilitator 2 s)',
  'floor A',
  'floor B',
  'floor C',
  'floor D',
  'HTTP',
  'ours (new streams)',
  'floor A (new streams)',
  'floor B (new streams)',
] as const
const onChannels = ['ours (channel)', 'floor A1', 'floor B1', 'floor D1'] as const
const onPostgres = [
  'ours (PostgreSQL)',
  "ours (seller's PostgreSQL far)",
  'ours (PostgreSQL far)',
  'floor B (PostgreSQL)',
] as const
export const variantNames = [...onSqlite, ...onChannels, ...onPostgres] as const
export type VariantName = (typeof variantNames)[number]

/** What a settlement takes on Base. */
const SLOW_MS = 2_000

/** CPU time per call, in µs. It stays meaningful when the machine is busy with other work. */
export type Cpu = { buyer: number; seller: number; facilitator: number }
/** What the ledger and the curve of one side were asked for by one call, and the CPU time that its database server took, in µs. */
export type LedgerCost = Traffic & { serverMicros: number }
export type Measured = Load & { cpuMicros: Cpu; ledger?: { seller: LedgerCost; buyer: LedgerCost } }
export type Variant = { name: VariantName; measure(plan: LoadPlan): Promise<Measured> }

/** A database server for the ledgers of all sellers, and one for those of all buyers. */
export type Servers = { seller: BenchPostgres; buyer: BenchPostgres }

export type VariantsOptions = {
  transport: 'tcp' | 'quic'
  facilitator: 'in-process' | 'http'
  profileDir: string | undefined
  /** Names of the variants to start, or all. */
  only: readonly string[] | undefined
  /** What a round trip to a far database takes. */
  farMs: number
}

/** Starts every process of the bench. Each database has its own directory in the system's temporary directory. */
export async function startVariants({ transport, facilitator: where, profileDir, only, farMs }: VariantsOptions) {
  const parts = await createParts(profileDir)
  const { directory, stops, stop } = parts
  const start: StartPart = (file, setup = {}) => parts.start(`./paid-call/${file}`, { transport, ...setup })
  const wants = (names: readonly string[]) => only === undefined || names.some((name) => only.includes(name))

  try {
    const facilitator = where === 'http' ? await start('facilitator.ts') : undefined
    const variants: Variant[] = []
    if (wants(onSqlite)) variants.push(...(await sqliteVariants(start, facilitator)))
    if (wants(onChannels)) variants.push(...(await channelVariants(start)))
    let servers: Servers | undefined
    if (wants(onPostgres)) {
      const started = { seller: await startBenchPostgres(), buyer: await startBenchPostgres() }
      stops.unshift(started.seller.stop, started.buyer.stop)
      variants.push(...(await postgresVariants(start, { facilitator, servers: started, farMs })))
      servers = started
    }
    return { variants: variants.filter(({ name }) => wants([name])), directory, servers, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

type StartPart = (file: string, setup?: Record<string, string>) => Promise<Part>
type Parts = { buyer: Part; seller: Part; facilitator: Part | undefined }
type DatabaseUrls = { seller?: string; buyer?: string }

async function sqliteVariants(start: StartPart, facilitator: Part | undefined): Promise<Variant[]> {
  const ours = await startOurs(start, facilitator, {})
  const slow = await startOurs(start, undefined, {}, SLOW_MS)
  const floor = await startFloor(start, {})
  const httpSeller = await start('http-seller.ts', { facilitatorUrl: facilitator?.ready.url ?? '' })
  const httpBuyer = await start('http-buyer.ts', { seller: httpSeller.ready.url ?? '' })
  const http = { buyer: httpBuyer, seller: httpSeller, facilitator }
  return [
    ourVariant('ours', ours, { reuse: true }),
    ourVariant('ours (awaits settlement)', ours, { reuse: true, awaits: true }),
    ourVariant('ours (facilitator 2 s)', slow, { reuse: true }),
    variant('floor A', floor, { floor: 'A', reuse: true }),
    variant('floor B', floor, { floor: 'B', reuse: true }),
    variant('floor C', floor, { floor: 'C', reuse: true }),
    variant('floor D', floor, { floor: 'D', reuse: true }),
    variant('HTTP', http, {}),
    ourVariant('ours (new streams)', ours, { reuse: false }),
    variant('floor A (new streams)', floor, { floor: 'A', reuse: false }),
    variant('floor B (new streams)', floor, { floor: 'B', reuse: false }),
  ]
}

/** Calls on a payment channel. Its deposit is on the chain of a devnet, as are the calls that are made before it has landed. */
async function channelVariants(start: StartPart): Promise<Variant[]> {
  const { ready } = await start('chain.ts')
  const { rpcUrl = '', facilitatorUrl = '', sellerKey = '', buyerKey = '' } = ready
  const chain = { rpcUrl, facilitatorUrl }
  const seller = await start('stoa-seller.ts', { ...chain, key: sellerKey })
  const { address = '', agentId = '' } = seller.ready
  const buyer = await start('stoa-buyer.ts', { ...chain, key: buyerKey, seller: address, agentId })
  const floor = await startFloor(start, {})
  return [
    ourVariant('ours (channel)', { buyer, seller, facilitator: undefined }, { reuse: true }),
    variant('floor A1', floor, { floor: 'A1', reuse: true }),
    variant('floor B1', floor, { floor: 'B1', reuse: true }),
    variant('floor D1', floor, { floor: 'D1', reuse: true }),
  ]
}

type OnServers = { facilitator: Part | undefined; servers: Servers; farMs: number }

async function postgresVariants(start: StartPart, { facilitator, servers, farMs }: OnServers): Promise<Variant[]> {
  const { seller, buyer } = servers
  const near = { seller: await seller.address(), buyer: await buyer.address() }
  const half = { seller: await seller.address(farMs), buyer: await buyer.address() }
  const far = { seller: await seller.address(farMs), buyer: await buyer.address(farMs) }
  const logs = { seller: await seller.address(), buyer: await buyer.address() }
  const ours = async (name: VariantName, urls: DatabaseUrls) =>
    ourVariant(name, await startOurs(start, facilitator, urls), { reuse: true, servers })
  return [
    await ours('ours (PostgreSQL)', near),
    await ours("ours (seller's PostgreSQL far)", half),
    await ours('ours (PostgreSQL far)', far),
    variant('floor B (PostgreSQL)', await startFloor(start, logs), { floor: 'B', reuse: true }),
  ]
}

/** @param settleMs what a facilitator in the seller's process takes for a settlement */
async function startOurs(
  start: StartPart,
  facilitator: Part | undefined,
  urls: DatabaseUrls,
  settleMs = 0,
): Promise<Parts> {
  const facilitatorUrl = facilitator?.ready.url ?? ''
  const set = { facilitatorUrl, databaseUrl: urls.seller ?? '', settleMs: String(settleMs) }
  const seller = await start('stoa-seller.ts', set)
  const { address = '', agentId = '' } = seller.ready
  const buyer = await start('stoa-buyer.ts', { seller: address, agentId, databaseUrl: urls.buyer ?? '' })
  return { buyer, seller, facilitator }
}

async function startFloor(start: StartPart, urls: DatabaseUrls): Promise<Parts> {
  const seller = await start('floor-seller.ts', { databaseUrl: urls.seller ?? '' })
  const buyer = await start('floor-buyer.ts', { seller: seller.ready.address ?? '', databaseUrl: urls.buyer ?? '' })
  return { buyer, seller, facilitator: undefined }
}

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

/** A variant of ours: what its ledgers are asked for is counted too. */
function ourVariant(
  name: VariantName,
  parts: Parts,
  { reuse, awaits = false, servers }: { reuse: boolean; awaits?: boolean; servers?: Servers },
): Variant {
  const inner = variant(name, parts, { reuse, awaits })
  const counted = async (side: 'seller' | 'buyer') => {
    const traffic = await parts[side].ask<Traffic>(TRAFFIC)
    return { ...traffic, serverMicros: ((await servers?.[side].use())?.cpuMs ?? 0) * 1000 }
  }
  return {
    name,
    async measure(plan) {
      const before = { seller: await counted('seller'), buyer: await counted('buyer') }
      const measured = await inner.measure(plan)
      const after = { seller: await counted('seller'), buyer: await counted('buyer') }
      const each = (side: 'seller' | 'buyer') => perCall(before[side], after[side], measured.calls)
      return { ...measured, ledger: { seller: each('seller'), buyer: each('buyer') } }
    },
  }
}

function perCall(before: LedgerCost, after: LedgerCost, calls: number): LedgerCost {
  const each = (figure: keyof LedgerCost) => (after[figure] - before[figure]) / calls
  return {
    statements: each('statements'),
    roundTrips: each('roundTrips'),
    groups: each('groups'),
    bytes: each('bytes'),
    signed: each('signed'),
    recovered: each('recovered'),
    serverMicros: each('serverMicros'),
  }
}
