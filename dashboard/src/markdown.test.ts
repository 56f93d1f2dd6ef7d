import { expect, test } from 'vitest'
import { type Block, type Inline, isPlain, MARKDOWN_LENGTH_MAX, parseMarkdown } from './markdown.ts'

/** A tree as short text, for comparison. */
function show(nodes: readonly (Block | Inline)[]): string {
  return nodes.map(shown).join('')
}
function shown(node: Block | Inline): string {
  switch (node.kind) {
    case 'text':
      return node.text
    case 'code':
      return `\`${node.text}\``
    case 'break':
      return '/'
    case 'link':
      return `<${show(node.children)}|${node.href}>`
    case 'heading':
      return `h${node.level}(${show(node.children)})`
    case 'fence':
      return `pre(${node.text})`
    case 'list':
      return `${node.start === undefined ? 'ul' : `ol${node.start}`}(${node.items.map((item) => `li(${show(item)})`).join('')})`
    case 'rule':
      return 'hr'
    case 'table':
      return `table(${[node.head, ...node.rows].map((row) => row.map(show).join(',')).join(';')})`
    case 'quote':
      return `quote(${show(node.blocks)})`
    default:
      return `${node.kind}(${show(node.children)})`
  }
}
const tree = (text: string) => show(parseMarkdown(text))

test.each([
  ['# Title\n\ntext', 'h1(Title)paragraph(text)'],
  ['Title\n===\n## Sub ##', 'h1(Title)h2(Sub)'],
  ['one\ntwo', 'paragraph(one/two)'],
  ['a **bold** and *slanted* `code` ~~gone~~', 'paragraph(a strong(bold) and em(slanted) `code` del(gone))'],
  ['**bold with *both***', 'paragraph(strong(bold with em(both)))'],
  ['2 * 3 * 4 and snake_case_name', 'paragraph(2 * 3 * 4 and snake_case_name)'],
  ['\\*not\\*', 'paragraph(*not*)'],
  [
    '- a\n- b\n  - c\n\n1. x\n2. y',
    'ul(li(paragraph(a))li(paragraph(b)ul(li(paragraph(c)))))ol1(li(paragraph(x))li(paragraph(y)))',
  ],
  ['> said\n> so', 'quote(paragraph(said/so))'],
  ['```js\nlet a = "<b>"\n\n# no title\n```\nafter', 'pre(let a = "<b>"\n\n# no title)paragraph(after)'],
  ['```\nnever closed', 'pre(never closed)'],
  ['---', 'hr'],
  ['| a | b |\n|---|--:|\n| 1 | x \\| y |\nend', 'table(a,b;1,x | y)paragraph(end)'],
  [
    'see https://a.example/x?y=1, or <https://b.example>',
    'paragraph(see <https://a.example/x?y=1|https://a.example/x?y=1>, or <https://b.example|https://b.example/>)',
  ],
  ['[docs](https://a.example/b_(c) "title")', 'paragraph(<docs|https://a.example/b_(c)>)'],
])('%j is read as %s', (text, expected) => {
  expect(tree(text)).toBe(expected)
})

test.each([
  '<img src=x onerror=alert(1)>',
  '<script>alert(1)</script>',
  '[x](javascript:alert(1))',
  '[x](JaVaScRiPt:alert(1))',
  '[x](data:text/html,<script>alert(1)</script>)',
  '[x](/orders)',
  '[x](//evil.example)',
  '[x](https://user:secret@evil.example)',
])('T10 %s stays text', (text) => {
  expect(tree(text)).toBe(`paragraph(${text})`)
})

test('T10 an image is not loaded: only a link to it is shown', () => {
  expect(tree('![chart](https://evil.example/t.png)')).toBe('paragraph(<image: chart|https://evil.example/t.png>)')
})

test('T10 a link whose text looks like another address shows its target', () => {
  const [block] = parseMarkdown('[https://bank.example](https://evil.example/login)')
  expect(block).toMatchObject({ children: [{ kind: 'link', host: 'evil.example' }] })
})

test.each([
  ['brackets', '['.repeat(60_000)],
  ['links that never end', '[a]('.repeat(15_000)],
  ['stars', '*a '.repeat(20_000)],
  ['pairs of stars', '**a'.repeat(20_000)],
  ['one of many kinds', '*_~~`['.repeat(10_000)],
  ['back quotes', Array.from({ length: 340 }, (_, n) => '`'.repeat(n + 1)).join(' ')],
  ['quotes in quotes', '>'.repeat(60_000)],
  [
    'lists in lists',
    Array.from({ length: 300 }, (_, n) => `${' '.repeat(n * 2)}- x`)
      .join('\n')
      .slice(0, 60_000),
  ],
  ['a heading of marks', `# ${'# '.repeat(30_000)}`],
  ['bars', `${'|'.repeat(30_000)}\n${'-|'.repeat(15_000)}`],
  ['rules', `${'- '.repeat(30_000)}x`],
])('T10 hostile text is parsed in linear time: %s', (_, text) => {
  const started = performance.now()
  parseMarkdown(text)
  const whole = performance.now() - started
  // The limit is generous: a quadratic parser takes minutes here.
  expect(whole).toBeLessThan(3_000)
})

test('text beyond the limit and text without marks is plain', () => {
  expect(isPlain(parseMarkdown('line one\nline two'))).toBe(true)
  expect(isPlain(parseMarkdown('line **one**'))).toBe(false)
  expect(isPlain(parseMarkdown(`# a\n${'x'.repeat(MARKDOWN_LENGTH_MAX)}`))).toBe(true)
})
