import type { Sessions } from '../../../ledger/sessions.ts'
import {
  SessionParams,
  SessionQuery,
  SessionRecord,
  SessionRecords,
  SessionsParams,
  SessionsQuery,
} from '../../../schema/session.ts'
import { type Operation, operation, paged, Reply } from '../operation.ts'

const row = { method: 'GET', tags: ['sessions'], access: 'private', scope: 'read' } as const

/** The operator sees every session, and a token sees its own (D48). Peers cannot use this API. */
export function sessionRoutes(sessions: Sessions): Operation[] {
  return [
    operation({
      ...row,
      id: 'listSessions',
      path: '/sessions/{agentID}',
      summary: 'All sessions of an agent',
      description:
        'Sorted by caller, each with its latest exchanges. The caller `local` is this node itself. A token of ' +
        '`execute` or `spend` sees its own part.',
      params: SessionsParams,
      query: SessionsQuery,
      response: SessionRecords,
      errors: ['UNKNOWN_AGENT'],
      handler: async ({ params, query, caller }) => paged(await sessions.list(params.agentID, query, caller)),
    }),
    operation({
      ...row,
      id: 'getSession',
      path: '/sessions/{agentID}/{callerID}',
      summary: 'The session between an agent and a caller',
      params: SessionParams,
      query: SessionQuery,
      response: SessionRecord,
      errors: ['UNKNOWN_SESSION'],
      async handler({ params, query, caller }) {
        const { session, next } = await sessions.get(params.agentID, params.callerID, query, caller)
        return new Reply(session, { next })
      },
    }),
  ]
}
