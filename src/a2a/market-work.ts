import * as z from 'zod'
import { CodedError } from '../lib/errors.ts'
import { parseJson } from '../lib/json.ts'
import { QUERY_LENGTH_MAX } from '../schema/limits.ts'
import { toldTo } from '../store/store-error.ts'
import { isMarketTool, type MarketTools } from '../tools/tools.ts'
import type { Outcome, Work } from './executor.ts'

const Request = z.looseObject({ skill: z.string().max(64) })

/** The node as an agent. A data part names a market tool and its arguments. Text is a search query. */
export function marketWork(tools: MarketTools): Work {
  return async (turn, progress) => {
    const { skill, ...args } = readRequest(turn.input)
    if (!isMarketTool(skill))
      return failed('INVALID_REQUEST', `there is no skill ${JSON.stringify(skill)}: see the card`)
    progress.working()
    try {
      const { caller, signal, messageId } = turn
      // Canceling a task stops its order, also at the seller. A caller that only leaves may return for the task.
      const by = { caller, signal, cancel: signal, idempotencyKey: `a2a:${messageId}` }
      const { value, foreign } = await tools.call(skill, args, by)
      const bytes = foreign?.output_base64
      return { kind: 'completed', output: value, ...(bytes !== undefined && { bytes: Buffer.from(bytes, 'base64') }) }
    } catch (error) {
      if (turn.running.isCanceled) return { kind: 'canceled', text: 'canceled by the caller' }
      const told = toldTo(turn.caller, error)
      if (told instanceof CodedError) return failed(told.code, told.message)
      throw error
    }
  }
}

function readRequest(input: string): { skill: string; [name: string]: unknown } {
  const parsed = Request.safeParse(parseJson(input))
  return parsed.success ? parsed.data : { skill: 'discover_agents', query: input.slice(0, QUERY_LENGTH_MAX) }
}

function failed(code: string, message: string): Outcome {
  return { kind: 'failed', text: `${code}: ${message}`, metadata: { 'stoa.error': { code, message } } }
}
