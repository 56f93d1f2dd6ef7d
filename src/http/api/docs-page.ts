import { createHash } from 'node:crypto'
import { x402Errors } from '../../schema/x402.ts'
import { problems } from '../server/problem.ts'
import type { JsonSchema, OpenApi, OpenApiOperation } from './openapi.ts'

const style = `
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --accent: #0a7f5a }
@media (prefers-color-scheme: dark) { :root { --accent: #4fd1a5 } }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 58rem; margin: 0 auto; padding: 1.5rem 1rem 4rem }
h1 { font-size: 1.6rem } h2 { margin-top: 2.5rem; text-transform: capitalize } h2, h3 { line-height: 1.25 }
h3 { font-size: 1rem; margin: 0 } a { color: var(--accent) }
code, pre { font: 13px/1.5 ui-monospace, monospace } code { overflow-wrap: anywhere }
pre { background: var(--soft); padding: .7rem .9rem; overflow-x: auto; border-radius: 6px }
article { border: 1px solid var(--line); border-radius: 8px; padding: .9rem 1.1rem; margin: .9rem 0 }
.method { color: var(--accent); font-weight: 700 }
table { border-collapse: collapse; width: 100%; font-size: .9rem } td, th { text-align: left; vertical-align: top }
td, th { padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line) } tr:target { background: var(--soft) }
.wide { overflow-x: auto }
`

/** The page consists of its own text and this one style. It runs no script and sends no request. */
export const DOCS_CSP =
  `default-src 'none'; style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'; ` +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** @param url the address of this node as the reader used it, for the examples */
export function docsPage(document: OpenApi, url: string): string {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  )
  const sections = document.tags.map(({ name }) => {
    const own = operations.filter(({ operation }) => operation.tags[0] === name)
    const articles = own.map(({ path, method, operation }) => describeOperation(method, path, operation, url))
    return own.length === 0 ? '' : `<h2 id="${text(name)}">${text(name)}</h2>${articles.join('')}`
  })
  const schemas = Object.entries(document.components.schemas).map(
    ([name, schema]) => `<article id="schema-${text(name)}"><h3>${text(name)}</h3>${describeSchema(schema)}</article>`,
  )
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Stoa API</title><style>${style}</style></head><body>
<h1>Stoa API ${text(document.info.version)}</h1>
${document.info.description
  .split('\n\n')
  .map((part) => `<p>${prose(part)}</p>`)
  .join('')}
<p>The same as OpenAPI 3.1: <a href="openapi.json">openapi.json</a></p>
<main>${sections.join('')}
<h2 id="schemas">Schemas</h2>${schemas.join('')}
<h2 id="errors">Errors</h2>${describeProblems()}</main>
</body></html>
`
}

function describeOperation(method: string, path: string, operation: OpenApiOperation, url: string): string {
  const { operationId, summary, description, parameters = [], requestBody, responses } = operation
  const content = requestBody?.content['application/json']
  const answers = Object.entries(responses).map(([status, response]) => {
    const schema = Object.values(response.content)[0]?.schema ?? {}
    return `<tr><td>${text(status)}</td><td>${prose(response.description)}</td><td>${typeName(schema)}</td></tr>`
  })
  const takes = [
    ...parameters.map(({ name, schema }) => `<code>${text(name)}</code> in the path: ${typeName(schema)}`),
    ...(content === undefined ? [] : [`body: ${typeName(content.schema)}`]),
  ]
  return `<article id="${text(operationId)}">
<h3><code><span class="method">${method}</span> ${text(path)}</code></h3>
<p>${prose(summary)}.${description === undefined ? '' : ` ${prose(description)}`}</p>
${takes.length === 0 ? '' : `<p>Takes ${takes.join('; ')}</p>`}
<pre>${text(curl(method, `${url}${path}`, content?.example))}</pre>
<details><summary>Answers</summary><table>${answers.join('')}</table></details>
</article>`
}

function curl(method: string, address: string, body: object | undefined): string {
  const url = address.replace(/\{(\w+)\}/g, (_, name: string) => `$${name.toUpperCase()}`)
  const head = method === 'GET' ? `curl ${url}` : `curl -X ${method} ${url}`
  if (body === undefined) return head
  const json = JSON.stringify(body).replaceAll("'", "'\\''")
  return `${head} \\\n  -H 'Content-Type: application/json' \\\n  -d '${json}'`
}

function describeSchema(schema: JsonSchema): string {
  const properties = (schema.properties ?? {}) as Record<string, JsonSchema>
  const required = (schema.required ?? []) as string[]
  const rows = Object.entries(properties).map(([name, property]) => {
    const note = typeof property.description === 'string' ? prose(property.description) : ''
    const optional = required.includes(name) ? '' : ' <small>optional</small>'
    return `<tr><td><code>${text(name)}</code>${optional}</td><td>${typeName(property)}</td><td>${note}</td></tr>`
  })
  const lead = typeof schema.description === 'string' ? `<p>${prose(schema.description)}</p>` : ''
  return `${lead}<div class="wide"><table>${rows.join('')}</table></div>`
}

function typeName(schema: JsonSchema): string {
  if (typeof schema.$ref === 'string') {
    const name = text(schema.$ref.split('/').at(-1)!)
    return `<a href="#schema-${name}">${name}</a>`
  }
  if (Array.isArray(schema.anyOf)) return (schema.anyOf as JsonSchema[]).map(typeName).join(' or ')
  if (schema.type === 'array') return `array of ${typeName((schema.items ?? {}) as JsonSchema)}`
  if (Array.isArray(schema.enum)) return schema.enum.map((value) => `<code>${text(String(value))}</code>`).join(' or ')
  if (schema.const !== undefined) return `<code>${text(String(schema.const))}</code>`
  return text(String(schema.format ?? schema.type ?? 'any'))
}

function describeProblems(): string {
  const own = Object.entries(problems).map(([code, { status, title }]) => [code, String(status), title] as const)
  const x402 = Object.entries(x402Errors)
    .filter(([code]) => !Object.hasOwn(problems, code))
    .map(([code, row]) => [code, '502', `x402 error ${row.code}`] as const)
  const rows = [...own, ...x402].map(
    ([code, status, title]) =>
      `<tr id="${code}"><td><code>${code}</code></td><td>${status}</td><td>${text(title)}</td></tr>`,
  )
  return `<div class="wide"><table>${rows.join('')}</table></div>`
}

/** Renders text that contains `code`. */
function prose(markdown: string): string {
  return text(markdown).replace(/`([^`]+)`/g, '<code>$1</code>')
}

function text(raw: string): string {
  return raw.replace(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`)
}
