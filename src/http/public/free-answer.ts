import type { FastifyReply } from 'fastify'
import { freeCaller } from '../../protocols/doors/door-sales.ts'
import { PeerError } from '../../protocols/peer-error.ts'
import type { PaidRunDeps, ServedAgent } from '../../protocols/x402/exchange.ts'
import { runFree } from '../../protocols/x402/free-run.ts'
import { PublicError } from './public-error.ts'
import { busy, sendResult } from './sale-answers.ts'
import { sendShown } from './shown-answer.ts'
import { ShownOutput } from './shown-output.ts'
import type { TaskForm } from './task-body.ts'

type FreeRun = { agent: ServedAgent; input: string; isStreamed: boolean; form: TaskForm }

/** Runs a free agent for a caller who is nobody, and answers, whole or as a stream. @throws PublicError */
export async function answerForNothing(
  { agent, input, isStreamed, form }: FreeRun,
  reply: FastifyReply,
  sales: PaidRunDeps,
): Promise<void> {
  const caller = freeCaller('http', leavingSignal(reply))
  if (!isStreamed) return sendResult(await runFree(agent, input, caller, sales).catch(asPublicError), form, reply)
  const shown = new ShownOutput()
  const run = runFree(agent, input, { ...caller, onOutput: shown.push }, sales)
    .then((result) => ({ result }), endOf)
    .finally(() => shown.end())
  await sendShown(shown, () => run, reply)

  function endOf(error: unknown): PublicError {
    if (error instanceof PeerError) return publicErrorOf(error)
    sales.logger.error({ err: error, agent_id: agent.id }, 'a free run failed inside the node')
    return new PublicError('INTERNAL', 'this node failed; its operator has the cause')
  }
}

/** Aborts when the caller leaves before it has the whole answer, so that the run ends. */
function leavingSignal(reply: FastifyReply): AbortSignal {
  const left = new AbortController()
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) left.abort(new Error('the caller has left'))
  })
  return left.signal
}

function asPublicError(error: unknown): never {
  throw error instanceof PeerError ? publicErrorOf(error) : error
}

function publicErrorOf({ code, message }: PeerError): PublicError {
  return code === 'OVERLOADED' ? busy(message) : new PublicError('AGENT_FAILED', message)
}
