import { type Inline, parseInline } from './markdown-inline.ts'

export type { Inline } from './markdown-inline.ts'

/** Markdown as a tree of plain data (T10). Anything that is not Markdown is text, HTML included. */
export type Block =
  | { kind: 'paragraph'; children: Inline[] }
  | { kind: 'heading'; level: number; children: Inline[] }
  | { kind: 'fence'; text: string }
  | { kind: 'quote'; blocks: Block[] }
  | { kind: 'list'; start: number | undefined; items: Block[][] }
  | { kind: 'table'; head: Inline[][]; right: boolean[]; rows: Inline[][][] }
  | { kind: 'rule' }

/** Longer text, in characters, is shown unformatted: formatting it would stall the page. */
export const MARKDOWN_LENGTH_MAX = 64_000
/** Levels of nested lists and quotes. */
const DEPTH_MAX = 6
const COLUMNS_MAX = 30

const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/
const HEADING = /^ {0,3}(#{1,6})(?: |$)/
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?: {1,4}|$)/
const UNDERLINE = /^ {0,3}(=+|-{2,}) *$/

/** Parses any text in time proportional to its length. */
export function parseMarkdown(text: string): Block[] {
  if (text.length > MARKDOWN_LENGTH_MAX) return [{ kind: 'paragraph', children: [{ kind: 'text', text }] }]
  return parseBlocks(text.replace(/\r\n?/g, '\n').replaceAll('\t', '    ').split('\n'), 0)
}

/** True if the text contains no Markdown and should be shown as written. */
export function isPlain(blocks: readonly Block[]): boolean {
  return blocks.every(
    (block) => block.kind === 'paragraph' && block.children.every(({ kind }) => kind === 'text' || kind === 'break'),
  )
}

function parseBlocks(lines: readonly string[], depth: number): Block[] {
  const blocks: Block[] = []
  let at = 0
  while (at < lines.length) {
    if (lines[at]!.trim() === '') {
      at += 1
      continue
    }
    const [block, next] = blockAt(lines, at, depth)
    blocks.push(block)
    at = next
  }
  return blocks
}

/** The block that starts at this line, and the line after the block. */
function blockAt(lines: readonly string[], at: number, depth: number): [Block, number] {
  const line = lines[at]!
  const fence = FENCE.exec(line)
  if (fence !== null) return fenceAt(lines, at, fence[1]!)
  if (HEADING.test(line)) return [headingOf(line), at + 1]
  if (RULE.test(line)) return [{ kind: 'rule' }, at + 1]
  if (depth < DEPTH_MAX && isQuote(line)) return quoteAt(lines, at, depth)
  if (depth < DEPTH_MAX && ITEM.test(line)) return listAt(lines, at, depth)
  if (isTable(lines, at)) return tableAt(lines, at)
  return paragraphAt(lines, at, depth)
}

const isQuote = (line: string) => /^ {0,3}>/.test(line)

function fenceAt(lines: readonly string[], at: number, mark: string): [Block, number] {
  let end = at + 1
  while (end < lines.length && !isFenceEnd(lines[end]!, mark)) end += 1
  return [{ kind: 'fence', text: lines.slice(at + 1, end).join('\n') }, end + 1]
}

function isFenceEnd(line: string, mark: string): boolean {
  const text = line.trim()
  return text.length >= mark.length && text === mark[0]!.repeat(text.length)
}

function headingOf(line: string): Block {
  const level = HEADING.exec(line)![1]!.length
  let text = line.trim().slice(level).trim()
  let end = text.length
  while (text[end - 1] === '#') end -= 1
  if (end === 0 || text[end - 1] === ' ') text = text.slice(0, end).trimEnd()
  return { kind: 'heading', level, children: parseInline(text) }
}

function quoteAt(lines: readonly string[], at: number, depth: number): [Block, number] {
  let end = at
  while (end < lines.length && isQuote(lines[end]!)) end += 1
  const inner = lines.slice(at, end).map((line) => line.replace(/^ {0,3}> ?/, ''))
  return [{ kind: 'quote', blocks: parseBlocks(inner, depth + 1) }, end]
}

function listAt(lines: readonly string[], at: number, depth: number): [Block, number] {
  const first = ITEM.exec(lines[at]!)![2]!
  const isOrdered = /\d/.test(first)
  const items: Block[][] = []
  let end = at
  while (end < lines.length) {
    const item = ITEM.exec(lines[end]!)
    if (item === null || /\d/.test(item[2]!) !== isOrdered || RULE.test(lines[end]!)) break
    const inner = [lines[end]!.slice(item[0].length)]
    const indent = item[1]!.length + 2
    end += 1
    while (end < lines.length && belongs(lines, end, indent)) {
      inner.push(lines[end]!.replace(new RegExp(`^ {0,${item[0].length}}`), ''))
      end += 1
    }
    items.push(parseBlocks(inner, depth + 1))
    if (lines[end]?.trim() === '' && ITEM.test(lines[end + 1] ?? '')) end += 1
  }
  return [{ kind: 'list', start: isOrdered ? Number.parseInt(first, 10) : undefined, items }, end]
}

/** True if a line continues the item above it: the line is indented, or it continues a paragraph. */
function belongs(lines: readonly string[], at: number, indent: number): boolean {
  const line = lines[at]!
  const isIndented = (text = '') => text.startsWith(' '.repeat(indent))
  if (line.trim() === '') return isIndented(lines[at + 1]) && lines[at + 1]!.trim() !== ''
  if (isIndented(line)) return true
  return lines[at - 1]!.trim() !== '' && !beginsBlock(line)
}

function beginsBlock(line: string): boolean {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || isQuote(line) || ITEM.test(line)
}

function isTable(lines: readonly string[], at: number): boolean {
  const under = lines[at + 1]
  if (under === undefined || !lines[at]!.includes('|') || !/^[ |:-]+$/.test(under) || !under.includes('-')) return false
  return cellsOf(under).length === cellsOf(lines[at]!).length
}

function tableAt(lines: readonly string[], at: number): [Block, number] {
  const head = cellsOf(lines[at]!).map((cell) => parseInline(cell))
  const right = cellsOf(lines[at + 1]!).map((cell) => cell.endsWith(':') && !cell.startsWith(':'))
  let end = at + 2
  const rows: Inline[][][] = []
  while (end < lines.length && lines[end]!.includes('|')) {
    rows.push(
      cellsOf(lines[end]!)
        .slice(0, head.length)
        .map((cell) => parseInline(cell)),
    )
    end += 1
  }
  return [{ kind: 'table', head, right, rows }, end]
}

function cellsOf(line: string): string[] {
  const cells: string[] = []
  const text = line.trim().replace(/^\|/, '').replace(/\|$/, '')
  let cell = ''
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '|' && cells.length < COLUMNS_MAX) {
      cells.push(cell.trim())
      cell = ''
    } else if (text[at] === '\\' && text[at + 1] === '|') {
      cell += '|'
      at += 1
    } else cell += text[at]
  }
  return [...cells, cell.trim()]
}

function paragraphAt(lines: readonly string[], at: number, depth: number): [Block, number] {
  let end = at + 1
  while (end < lines.length && lines[end]!.trim() !== '') {
    const line = lines[end]!
    const under = UNDERLINE.exec(line)
    if (under !== null) {
      const level = under[1]!.startsWith('=') ? 1 : 2
      return [{ kind: 'heading', level, children: textOf(lines.slice(at, end)) }, end + 1]
    }
    // At the depth limit quotes and items are text, so these lines end no paragraph.
    if (FENCE.test(line) || HEADING.test(line) || RULE.test(line)) break
    if (depth < DEPTH_MAX && (isQuote(line) || ITEM.test(line))) break
    if (isTable(lines, end)) break
    end += 1
  }
  return [{ kind: 'paragraph', children: textOf(lines.slice(at, end)) }, end]
}

function textOf(lines: readonly string[]): Inline[] {
  return parseInline(lines.map((line) => line.trim()).join('\n'))
}
