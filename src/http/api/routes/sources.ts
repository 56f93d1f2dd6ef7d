import {
  EntryParams,
  EntryQuery,
  Source,
  SourceEntry,
  SourceParams,
  SourceResults,
  Sources,
} from '../../../schema/source.ts'
import type { Sources as SourceSearch } from '../../../sources/sources.ts'
import { type Operation, operation } from '../operation.ts'

export type SourcesPart = Pick<SourceSearch, 'list' | 'test' | 'search' | 'probe'>

/** They send requests of this node to others, so pages of other sites may not ask. */
const row = { tags: ['sources'], access: 'private', scope: 'read' } as const
const act = { ...row, method: 'POST', repeatable: true, scope: 'execute' } as const

export function sourceRoutes(sources: SourcesPart): Operation[] {
  return [
    operation({
      ...row,
      id: 'listSources',
      method: 'GET',
      path: '/sources',
      summary: 'Catalogs that this node searches',
      description: 'Set in config.yaml (`sources`). A catalog is asked only when somebody searches it.',
      response: Sources,
      handler: () => sources.list(),
    }),
    operation({
      ...row,
      id: 'searchSources',
      method: 'GET',
      path: '/sources/entries',
      summary: 'Search the catalogs',
      description:
        'Entries of catalogs are no listings: no seller signed them, and they appear in no list of agents. ' +
        'A catalog that fails does not fail the search: `sources` says which one failed, and why.',
      query: EntryQuery,
      response: SourceResults,
      errors: ['UNKNOWN_SOURCE'],
      handler: ({ query, signal }) => sources.search(query, signal),
    }),
    operation({
      ...act,
      id: 'probeEntry',
      path: '/sources/entries/{id}/probe',
      summary: 'Ask an entry without payment',
      description:
        'Sends the request of an entry that a search has shown, without payment, and compares its terms with the catalog. ' +
        'The answer is kept for 5 min.',
      params: EntryParams,
      response: SourceEntry,
      errors: ['UNKNOWN_ENTRY'],
      handler: ({ params, signal }) => sources.probe(params.id, signal),
    }),
    operation({
      ...act,
      id: 'testSource',
      path: '/sources/{name}/test',
      summary: 'Ask a catalog now',
      params: SourceParams,
      response: Source,
      errors: ['UNKNOWN_SOURCE'],
      handler: ({ params, signal }) => sources.test(params.name, signal),
    }),
  ]
}
