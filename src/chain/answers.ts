import * as z from 'zod'
import type { Hex } from '../schema/primitives.ts'
import { unavailable } from './rpc.ts'
import type { Log } from './usdc.ts'

/* Checks what this node reads of RPC answers. The RPC is untrusted: it can lie, break or be another service. */

const LOGS_MAX = 10_000

const hex = (pattern: RegExp) =>
  z
    .string()
    .regex(pattern)
    .transform((text) => text.toLowerCase() as Hex)
const Quantity = z
  .string()
  .regex(/^0x(0|[1-9a-fA-F][0-9a-fA-F]{0,12})$/)
  .transform(Number)
const Hash = hex(/^0x[0-9a-fA-F]{64}$/)

const RawLog = z.object({
  address: hex(/^0x[0-9a-fA-F]{40}$/),
  topics: z.array(Hash).max(4),
  data: hex(/^0x[0-9a-fA-F]*$/),
  transactionHash: Hash,
  logIndex: Quantity,
  removed: z.boolean().optional(),
})
const Logs = z.array(RawLog).max(LOGS_MAX)

const Receipt = z
  .object({
    status: Quantity,
    transactionHash: Hash,
    logs: Logs,
    blockNumber: Quantity.nullish(),
    transactionIndex: Quantity.nullish(),
  })
  .nullable()
const Block = z.object({ timestamp: Quantity, number: Quantity })

/** `place`: block number and index in the block, if the RPC says so. */
type Receipt = { succeeded: boolean; transactionHash: Hex; logs: Log[]; place?: readonly [number, number] }

export function parseQuantity(result: unknown): number {
  return read(Quantity, result, 'a number')
}

/** Leaves out logs that a reorganization has undone. */
export function parseLogs(result: unknown): Log[] {
  return read(Logs, result, 'logs').filter((log) => log.removed !== true)
}

/** `undefined`: the RPC does not know the transaction or has not seen it mined. */
export function parseReceipt(result: unknown): Receipt | undefined {
  const receipt = read(Receipt, result, 'a receipt')
  if (receipt === null) return undefined
  const { status, transactionHash, logs, blockNumber, transactionIndex } = receipt
  const isPlaced = typeof blockNumber === 'number' && typeof transactionIndex === 'number'
  return { succeeded: status === 1, transactionHash, logs, ...(isPlaced && { place: [blockNumber, transactionIndex] }) }
}

/** True if a transaction was mined after another one. False if the RPC does not say where they are. */
export function isMinedAfter(later: Receipt, earlier: Receipt): boolean {
  if (later.place === undefined || earlier.place === undefined) return false
  const [block, index] = later.place
  const [earlierBlock, earlierIndex] = earlier.place
  return block > earlierBlock || (block === earlierBlock && index > earlierIndex)
}

/** The number of a block and its time in Unix seconds. */
export function parseBlock(result: unknown): { number: number; timestamp: number } {
  return read(Block, result, 'a block')
}

function read<T>(schema: z.ZodType<T>, result: unknown, expected: string): T {
  const parsed = schema.safeParse(result)
  if (!parsed.success) throw unavailable(`the RPC answered something that is not ${expected}`)
  return parsed.data
}
