import * as z from 'zod'
import { DOCS_CSP, docsPage } from '../docs-page.ts'
import type { OpenApi } from '../openapi.ts'
import { type Operation, operation } from '../operation.ts'

const row = { method: 'GET', tags: ['docs'], access: 'public', scope: 'read' } as const

/** The API's own description. `document` is built with the first call, not at start. */
export function docsRoutes(deps: { document(): OpenApi }): Operation[] {
  /** The last page. Most readers come by one address. */
  let page: { url: string; text: string } | undefined
  return [
    operation({
      ...row,
      id: 'getOpenApi',
      path: '/openapi.json',
      summary: 'This API as an OpenAPI 3.1 document',
      response: z.looseObject({ openapi: z.string() }).meta({ description: 'OpenAPI 3.1' }),
      handler: () => deps.document(),
    }),
    operation({
      ...row,
      id: 'getDocs',
      path: '/docs',
      summary: 'This API as a page to read',
      response: z.string(),
      media: 'text/html',
      headers: { 'content-security-policy': DOCS_CSP },
      handler({ url }) {
        if (page?.url !== url) page = { url, text: docsPage(deps.document(), url) }
        return page.text
      },
    }),
  ]
}
