import * as z from 'zod'
import { DOCS_CSP, docsPage } from '../docs-page.ts'
import type { OpenApi } from '../openapi.ts'
import { type Operation, operation } from '../operation.ts'

/** The API's own description. `document` is built with the first call, not at start. */
export function docsRoutes(deps: { document(): OpenApi }): Operation[] {
  let page: string | undefined
  return [
    operation({
      id: 'getOpenApi',
      method: 'GET',
      path: '/openapi.json',
      summary: 'This API as an OpenAPI 3.1 document',
      tags: ['docs'],
      access: 'public',
      scope: 'read',
      response: z.looseObject({ openapi: z.string() }).meta({ description: 'OpenAPI 3.1' }),
      status: 200,
      errors: [],
      handler: () => deps.document(),
    }),
    operation({
      id: 'getDocs',
      method: 'GET',
      path: '/docs',
      summary: 'This API as a page to read',
      tags: ['docs'],
      access: 'public',
      scope: 'read',
      response: z.string(),
      status: 200,
      media: 'text/html',
      headers: { 'content-security-policy': DOCS_CSP },
      errors: [],
      handler() {
        page ??= docsPage(deps.document())
        return page
      },
    }),
  ]
}
