/** Inline Markdown as a tree of plain data. No HTML and no images; links go only to web and mail addresses (T10). */
export type Inline =
  | { kind: 'text'; text: string }
  | { kind: 'code'; text: string }
  | { kind: 'break' }
  | { kind: 'strong' | 'em' | 'del'; children: Inline[] }
  | { kind: 'link'; href: string; host: string; children: Inline[] }

/** Levels of nested marks. Deeper marks stay text, so that the cost of hostile text grows only with its length. */
const DEPTH_MAX = 6
/** Maximum characters of a link's label and of its address. */
const LABEL_MAX = 500
const ADDRESS_MAX = 2_000
const MARKS = [
  ['**', 'strong'],
  ['__', 'strong'],
  ['~~', 'del'],
  ['*', 'em'],
  ['_', 'em'],
] as const
const PUNCTUATION = '!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~'

export function parseInline(text: string, depth = 0): Inline[] {
  const out: Inline[] = []
  /** Marks without a closing mark in the rest of the text. Each is searched for once. */
  const unclosed = new Set<string>()
  let plain = ''
  let at = 0
  const flush = () => {
    if (plain !== '') out.push({ kind: 'text', text: plain })
    plain = ''
  }
  while (at < text.length) {
    const found = depth < DEPTH_MAX ? markAt(text, at, depth, unclosed) : undefined
    if (found !== undefined) {
      flush()
      out.push(...found.nodes)
      at = found.end
    } else if (text[at] === '\\' && PUNCTUATION.includes(text[at + 1] ?? ' ')) {
      plain += text[at + 1]
      at += 2
    } else if (text[at] === '\n') {
      plain = plain.trimEnd()
      flush()
      out.push({ kind: 'break' })
      at += 1
    } else {
      plain += text[at]
      at += 1
    }
  }
  flush()
  return out
}

type InlineMatch = { nodes: Inline[]; end: number }

function markAt(text: string, at: number, depth: number, unclosed: Set<string>): InlineMatch | undefined {
  const char = text[at]
  if (char === '`') return codeAt(text, at, unclosed)
  if (char === '*' || char === '_' || char === '~') return emphasisAt(text, at, depth, unclosed)
  if (char === '[') return linkAt(text, at, depth, '')
  if (char === '!' && text[at + 1] === '[') return linkAt(text, at + 1, depth, 'image: ')
  if (char === '<') return bracketedAt(text, at)
  if (char === 'h' && !/\w/.test(text[at - 1] ?? ' ')) return addressAt(text, at)
  return undefined
}

function codeAt(text: string, at: number, unclosed: Set<string>): InlineMatch | undefined {
  let start = at
  while (text[start] === '`') start += 1
  const run = text.slice(at, start)
  // The rest of a longer run does not open another mark.
  const asText = { nodes: [{ kind: 'text' as const, text: run }], end: start }
  if (unclosed.has(run)) return asText
  for (let end = text.indexOf(run, start); end >= 0; ) {
    let after = end + run.length
    if (text[after] !== '`') {
      const inner = text.slice(start, end)
      return { nodes: [{ kind: 'code', text: inner.trim() === '' ? inner : inner.trim() }], end: after }
    }
    while (text[after] === '`') after += 1
    end = text.indexOf(run, after)
  }
  unclosed.add(run)
  return asText
}

function emphasisAt(text: string, at: number, depth: number, unclosed: Set<string>): InlineMatch | undefined {
  for (const [mark, kind] of MARKS) {
    if (!text.startsWith(mark, at) || unclosed.has(mark)) continue
    const start = at + mark.length
    if (/\s/.test(text[start] ?? ' ')) continue
    if (mark[0] === '_' && /\w/.test(text[at - 1] ?? ' ')) continue
    const end = closing(text, mark, start)
    if (end === undefined) {
      unclosed.add(mark)
      continue
    }
    const children = parseInline(text.slice(start, end), depth + 1)
    return { nodes: [{ kind, children }], end: end + mark.length }
  }
  return undefined
}

function closing(text: string, mark: string, start: number): number | undefined {
  const char = mark[0]
  for (let end = text.indexOf(mark, start + 1); end >= 0; end = text.indexOf(mark, end + 1)) {
    // `**` within `*…*` opens or closes another mark. The last two of `***` close `**`.
    if (mark.length === 1 && (text[end + 1] === char || text[end - 1] === char)) {
      if (text[end + 1] === char) end += 1
      continue
    }
    if (mark.length === 2 && text[end + 2] === char) continue
    if (/\s/.test(text[end - 1]!) || (text[end - 1] === '\\' && text[end - 2] !== '\\')) continue
    if (char === '_' && /\w/.test(text[end + mark.length] ?? ' ')) continue
    return end
  }
  return undefined
}

function linkAt(text: string, at: number, depth: number, prefix: string): InlineMatch | undefined {
  const label = text.slice(at + 1, at + 1 + LABEL_MAX)
  const length = label.indexOf('](')
  if (length < 0) return undefined
  const start = at + length + 3
  const end = addressEnd(text, start)
  if (end === undefined) return undefined
  const given = text.slice(start, end).trim()
  const space = given.search(/\s/)
  const target = safeTarget(space < 0 ? given : given.slice(0, space))
  // A link with an unsafe target is shown as written.
  if (target === undefined) return { nodes: [{ kind: 'text', text: text.slice(at, end + 1) }], end: end + 1 }
  const children: Inline[] = [
    ...(prefix === '' ? [] : [{ kind: 'text' as const, text: prefix }]),
    // A link must not contain a link, so links in its label become text.
    ...(prefix === '' ? withoutLinks(parseInline(label.slice(0, length), depth + 1)) : textOf(label.slice(0, length))),
  ]
  return { nodes: [{ kind: 'link', ...target, children: merged(children) }], end: end + 1 }
}

const textOf = (text: string): Inline[] => [{ kind: 'text', text }]

function merged(nodes: Inline[]): Inline[] {
  return nodes.length === 0 ? textOf('link') : nodes
}

function withoutLinks(nodes: Inline[]): Inline[] {
  return nodes.flatMap((node) => (node.kind === 'link' ? withoutLinks(node.children) : [node]))
}

/** The end of the address after `](`: its closing bracket, in the same line. */
function addressEnd(text: string, start: number): number | undefined {
  let open = 0
  const limit = Math.min(text.length, start + ADDRESS_MAX)
  for (let end = start; end < limit; end++) {
    if (text[end] === '\n') return undefined
    if (text[end] === '(') open += 1
    if (text[end] === ')' && open-- === 0) return end
  }
  return undefined
}

function bracketedAt(text: string, at: number): InlineMatch | undefined {
  const length = text.slice(at + 1, at + ADDRESS_MAX).indexOf('>')
  if (length < 0) return undefined
  const address = text.slice(at + 1, at + 1 + length)
  const target = /^https?:\/\/\S+$/i.test(address) ? safeTarget(address) : undefined
  return target && { nodes: [{ kind: 'link', ...target, children: textOf(address) }], end: at + length + 2 }
}

function addressAt(text: string, at: number): InlineMatch | undefined {
  if (!text.startsWith('http://', at) && !text.startsWith('https://', at)) return undefined
  let address = /^[^\s<>"]+/.exec(text.slice(at, at + ADDRESS_MAX))![0]
  while (/[.,;:!?*_~'\])]$/.test(address)) address = address.slice(0, -1)
  const target = safeTarget(address)
  return target && { nodes: [{ kind: 'link', ...target, children: textOf(address) }], end: at + address.length }
}

/** Accepts only complete web and mail addresses without user name and password, which would hide the host. */
function safeTarget(address: string): { href: string; host: string } | undefined {
  if (!/^(https?:\/\/|mailto:)/i.test(address)) return undefined
  try {
    const url = new URL(address)
    if (url.username !== '' || url.password !== '') return undefined
    return { href: url.href, host: url.protocol === 'mailto:' ? url.pathname : url.host }
  } catch {
    return undefined
  }
}
