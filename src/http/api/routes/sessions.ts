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

/** The operator sees every session, and a token sees its own (D48). Peers cannot use this API. */
export function sessionRoutes(sessions: Sessions): Operation[] {
  return [
    operation({
      id: 'listSessions',
      method: 'GET',
      path: '/sessions/{agentID}',
      summary: 'All sessions of an agent',
      description:
        'Sorted by caller, each with its latest exchanges. The caller `local` is this node itself. A token of ' +
        '`execute` or `spend` sees its own part.',
      tags: ['sessions'],
      access: 'private',
      scope: 'read',
      params: SessionsParams,
      query: SessionsQuery,
      response: SessionRecords,
      status: 200,
      errors: ['UNKNOWN_AGENT'],
      handler: ({ params, query, caller }) => paged(sessions.list(params.agentID, query, caller)),
    }),
    operation({
      id: 'getSession',
      method: 'GET',
      path: '/sessions/{agentID}/{callerID}',
      summary: 'The session between an agent and a caller',
      tags: ['sessions'],
      access: 'private',
      scope: 'read',
      params: SessionParams,
      query: SessionQuery,
      response: SessionRecord,
      status: 200,
      errors: ['UNKNOWN_SESSION'],
      handler({ params, query, caller }) {
        const { session, next } = sessions.get(params.agentID, params.callerID, query, caller)
        return new Reply(session, { next })
      },
    }),
  ]
}
