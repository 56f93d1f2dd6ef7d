/** JSON Schemas as Markdown. */
export type Schema = { [key: string]: unknown }

/** Rows of an object's fields. */
export function fieldRows(schema: Schema, link: (name: string) => string): string[] {
  const required = new Set((schema.required as string[] | undefined) ?? [])
  return Object.entries((schema.properties as Record<string, Schema> | undefined) ?? {}).map(
    ([name, field]) =>
      `| \`${name}\`${required.has(name) ? '' : ' ?'} | ${typeText(field, link)} | ${cell(String(field.description ?? ''))} |`,
  )
}

/** What a field holds, in few words. */
export function typeText(schema: Schema, link: (name: string) => string): string {
  const ref = schema.$ref as string | undefined
  if (ref !== undefined) return link(ref.split('/').at(-1)!)
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``
  if (schema.enum !== undefined) return (schema.enum as unknown[]).map((value) => `\`${value}\``).join(', ')
  const several = (schema.anyOf ?? schema.oneOf) as Schema[] | undefined
  if (several !== undefined) return [...new Set(several.map((one) => typeText(one, link)))].join(' or ')
  if (schema.type === 'array') {
    const most = schema.maxItems === undefined ? '' : `at most ${schema.maxItems}: `
    return `list of ${most}${typeText((schema.items as Schema | undefined) ?? {}, link)}`
  }
  if (schema.type === 'object' && schema.properties !== undefined) {
    const names = Object.keys(schema.properties as object).map((name) => `\`${name}\``)
    return `object: ${names.join(', ')}`
  }
  if (typeof schema.type === 'string') return schema.type + limits(schema)
  if (Array.isArray(schema.type)) return schema.type.join(' or ')
  return 'any'
}

function limits({ maxLength, format, minimum, maximum }: Schema): string {
  if (format !== undefined) return `, ${format}`
  if (maxLength !== undefined) return `, at most ${maxLength} characters`
  const safe = (bound: unknown) => typeof bound === 'number' && Math.abs(bound) < Number.MAX_SAFE_INTEGER
  if (safe(minimum) && safe(maximum)) return `, ${minimum} to ${maximum}`
  return ''
}

/** Text inside a table. Inside backticks `<` stands for itself. */
export function cell(text: string): string {
  const line = text.replaceAll('|', '\\|').replace(/\s+/g, ' ')
  return line.replace(/`[^`]*`|</g, (found) => (found === '<' ? '&lt;' : found))
}
