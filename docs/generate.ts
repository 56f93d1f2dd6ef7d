/** `npm run docs`: writes what the schemas say between the markers of the pages below. */
import { readFileSync, writeFileSync } from 'node:fs'
import { agentsTables, foreignTable, workflowTables } from './file-tables.ts'
import { httpReference } from './http-reference.ts'
import { protocolTables } from './protocol-tables.ts'

/** Pages, and the generated parts of each by their markers. */
export const pages: Readonly<Record<string, () => Record<string, string>>> = {
  'agents-yaml.md': agentsTables,
  'from-other-nodes.md': foreignTable,
  'http-api.md': httpReference,
  'protocol.md': protocolTables,
  'workflows.md': workflowTables,
}

/** A page with its generated parts as they should be. @throws Error where a marker is missing */
export function filledIn(page: string, parts: Readonly<Record<string, string>>): string {
  let text = page
  for (const [name, part] of Object.entries(parts)) {
    const place = new RegExp(`(<!-- ${name}: [^\n]* -->\n)[^]*?(<!-- /${name} -->)`)
    if (!place.test(text)) throw new Error(`no markers for ${name}`)
    text = text.replace(place, (_, begin: string, end: string) => `${begin}${part}\n${end}`)
  }
  return text
}

export const pageUrl = (name: string) => new URL(name, import.meta.url)

if (import.meta.main) {
  for (const [name, parts] of Object.entries(pages)) {
    writeFileSync(pageUrl(name), filledIn(readFileSync(pageUrl(name), 'utf8'), parts()))
  }
}
