/** The HTTP reference, out of the OpenAPI document that the node itself serves. */
import type { OpenApiOperation } from '../src/http/api/openapi.ts'
import { openApiDocument } from '../src/http/api/openapi.ts'
import { type ApiParts, apiOperations } from '../src/http/api/operations.ts'
import { cell, fieldRows, type Schema, typeText } from './schema-table.ts'

/** Routes only keep what they are given for later; nothing is asked of it here. */
const nobody = new Proxy({}, { get: () => () => undefined }) as ApiParts

export function httpReference(): Record<string, string> {
  const document = openApiDocument(apiOperations(nobody), '')
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, operation })),
  )
  const index = document.tags.flatMap(({ name: tag }) => {
    const rows = operations.filter(({ operation }) => operation.tags[0] === tag)
    if (rows.length === 0) return []
    return [
      `**${tag}**`,
      '',
      '| Operation | What it does | Token |',
      '|---|---|---|',
      ...rows.map(
        ({ name, operation }) =>
          `| [\`${name}\`](#${operationAnchor(operation)}) | ${cell(operation.summary)} | ${scopeOf(operation)} |`,
      ),
      '',
    ]
  })
  const details = operations.flatMap(({ name, operation }) => [
    `### <a id="${operationAnchor(operation)}"></a>${operation.operationId}`,
    '',
    `\`${name}\`: ${operation.summary.replace(/\.$/, '')}.${operation.description === undefined ? '' : ` ${operation.description}`}`,
    '',
    ...parameterLines(operation),
    ...bodyLines(operation),
    ...answerLines(operation),
    '',
  ])
  const types = Object.entries(document.components.schemas).flatMap(([name, schema]) => typeLines(name, schema))
  return {
    operations: index.join('\n').trimEnd(),
    details: details.join('\n').trimEnd(),
    types: types.join('\n').trimEnd(),
  }
}

/** An operation and a type may have the same name. */
const operationAnchor = ({ operationId }: OpenApiOperation) => `op-${operationId.toLowerCase()}`
const typeAnchor = (name: string) => `type-${name.toLowerCase()}`
const link = (name: string) => `[${name}](#${typeAnchor(name)})`

function scopeOf({ security }: OpenApiOperation): string {
  return security.flatMap((one) => (one as { token?: string[] }).token ?? []).join(', ') || 'none'
}

function parameterLines({ parameters = [] }: OpenApiOperation): string[] {
  return parameters.map(
    ({ name, in: place, required, description, schema }) =>
      `- \`${name}\` (${place}${required ? ', required' : ''}): ${typeText(schema, link)}${description === undefined ? '' : `. ${cell(description)}`}`,
  )
}

function bodyLines({ requestBody }: OpenApiOperation): string[] {
  return Object.entries(requestBody?.content ?? {}).map(([, { schema }]) => `- body: ${typeText(schema, link)}`)
}

function answerLines({ responses }: OpenApiOperation): string[] {
  const fine = Object.entries(responses).filter(([status]) => status < '400')
  const refused = Object.keys(responses).filter((status) => status >= '400')
  const bodies = (content: Record<string, { schema: Schema }>) =>
    Object.entries(content).map(([media, { schema }]) =>
      media === 'application/json' ? typeText(schema, link) : `\`${media}\``,
    )
  return [
    ...fine.map(([status, { content }]) => `- answers ${status}: ${bodies(content).join(', or ')}`),
    ...(refused.length > 0 ? [`- refuses with ${refused.join(', ')}`] : []),
  ]
}

function typeLines(name: string, schema: Schema): string[] {
  const rows = fieldRows(schema, link)
  const said = schema.description === undefined ? [] : [String(schema.description), '']
  const heading = `### <a id="${typeAnchor(name)}"></a>${name}`
  if (rows.length === 0) return [heading, '', ...said, typeText({ ...schema, $ref: undefined }, link), '']
  return [heading, '', ...said, '| Field | Type | |', '|---|---|---|', ...rows, '']
}
