import { formatPrice } from '../../schema/amount.ts'
import { type EntryQuery, Source, SourceEntry, SourceResults, Sources } from '../../schema/source.ts'
import { at, type Options, type Requests } from './requests.ts'

/** The catalogs of a running node. The functions throw the errors of ApiClient. */
export type SourceCalls = {
  sources(options?: Options): Promise<Source[]>
  testSource(name: string, options?: Options): Promise<Source>
  searchSources(query: EntryQuery, options?: Options): Promise<SourceResults>
  probeEntry(id: string, options?: Options): Promise<SourceEntry>
}

export function sourceCalls({ request, linked }: Requests): SourceCalls {
  return {
    sources: (options) => request('/sources', Sources, options),
    testSource: (name, options) => request(`${at('sources', name)}/test`, Source, options, {}),
    async searchSources({ max_price, ...query }, options) {
      const price = max_price === undefined ? {} : { max_price: formatPrice(max_price) }
      return (await linked('/sources/entries', { ...query, ...price }, SourceResults, options)).body
    },
    probeEntry: (id, options) => request(`${at('sources', 'entries', id)}/probe`, SourceEntry, options, {}),
  }
}
