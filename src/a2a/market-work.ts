import * as z from 'zod'
import { CodedError } from '../lib/errors.ts'
import { QUERY_LENGTH_MAX } from '../schema/limits.ts'
import { isMarketTool, type MarketTools } from '../tools/tools.ts'
import type { Outcome, Work } from './executor.ts'

const Request = z.looseObject({ skill: z.string().max(64) })

/**
 * What the node does as an agent: one of the market's tools per task. A data part names it and holds its arguments; text
 * is looked for on the market.
 */
export function marketWork(tools: MarketTools): Work {
  return async (turn, progress) => {
    const { skill, ...args } = readRequest(turn.input)
    if (!isMarketTool(skill))
      return failed('INVALID_REQUEST', `there is no skill ${JSON.stringify(skill)}: see the card`)
    progress.working()
    try {
      const { caller, signal, messageId } = turn
      // Whoever cancels a task has its order stopped, at its seller too; whoever only leaves may come back for it.
      const by = { caller, signal, cancel: signal, idempotencyKey: `a2a:${messageId}` }
      const { value, foreign } = await tools.call(skill, args, by)
      const bytes = foreign?.output_base64
      return { kind: 'completed', output: value, ...(bytes !== undefined && { bytes: Buffer.from(bytes, 'base64') }) }
    } catch (error) {
      if (turn.running.isCanceled) return { kind: 'canceled', text: 'cancelled by the caller' }
      if (error instanceof CodedError) return failed(error.code, error.message)
      throw error
    }
  }
}

function readRequest(input: string): { skill: string; [name: string]: unknown } {
  const parsed = Request.safeParse(parseJson(input))
  return parsed.success ? parsed.data : { skill: 'discover_agents', query: input.slice(0, QUERY_LENGTH_MAX) }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function failed(code: string, message: string): Outcome {
  return { kind: 'failed', text: `${code}: ${message}`, metadata: { 'stoa.error': { code, message } } }
}
