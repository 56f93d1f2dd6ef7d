import { Fragment, type ReactNode, useMemo } from 'react'
import { type Block, type Inline, isPlain, parseMarkdown } from '../markdown.ts'
import { Words } from './bits.tsx'

/** Markdown of another party, drawn with our own elements: no HTML, scripts or images from the text (T10). */
export function Markdown({ text, label }: { text: string; label: string }) {
  const blocks = useMemo(() => parseMarkdown(text), [text])
  if (isPlain(blocks)) return <Words text={text} label={label} />
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section className="words markdown" tabIndex={0} aria-label={label}>
      {blocks.map(blockOf)}
    </section>
  )
}

function blockOf(block: Block, key: number): ReactNode {
  switch (block.kind) {
    case 'paragraph':
      return <p key={key}>{block.children.map(inlineOf)}</p>
    case 'heading': {
      // Headings in the text rank below the page's own headings.
      const Heading = block.level === 1 ? 'h3' : block.level === 2 ? 'h4' : 'h5'
      return <Heading key={key}>{block.children.map(inlineOf)}</Heading>
    }
    case 'fence':
      return <pre key={key}>{block.text}</pre>
    case 'quote':
      return <blockquote key={key}>{block.blocks.map(blockOf)}</blockquote>
    case 'rule':
      return <hr key={key} />
    case 'list':
      return <List key={key} start={block.start} items={block.items} />
    case 'table':
      return <Table key={key} head={block.head} right={block.right} rows={block.rows} />
  }
}

function List({ start, items }: { start: number | undefined; items: readonly Block[][] }) {
  // biome-ignore lint/suspicious/noArrayIndexKey: the text does not change its order
  const shown = items.map((item, key) => <li key={key}>{item.map(blockOf)}</li>)
  return start === undefined ? <ul>{shown}</ul> : <ol start={start}>{shown}</ol>
}

function Table({ head, right, rows }: { head: Inline[][]; right: boolean[]; rows: Inline[][][] }) {
  const side = (column: number) => (right[column] === true ? 'number' : undefined)
  return (
    <div className="table-wrap">
      <table>
        <thead>
          <tr>
            {head.map((cell, key) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: the text does not change its order
              <th key={key} scope="col" className={side(key)}>
                {cell.map(inlineOf)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, key) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the text does not change its order
            <tr key={key}>
              {row.map((cell, column) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: the text does not change its order
                <td key={column} className={side(column)}>
                  {cell.map(inlineOf)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function inlineOf(node: Inline, key: number): ReactNode {
  switch (node.kind) {
    case 'text':
      return <Fragment key={key}>{node.text}</Fragment>
    case 'break':
      return <br key={key} />
    case 'code':
      return <code key={key}>{node.text}</code>
    case 'strong':
      return <strong key={key}>{node.children.map(inlineOf)}</strong>
    case 'em':
      return <em key={key}>{node.children.map(inlineOf)}</em>
    case 'del':
      return <del key={key}>{node.children.map(inlineOf)}</del>
    case 'link':
      return (
        <a key={key} href={node.href} title={node.href} target="_blank" rel="noopener noreferrer nofollow">
          {node.children.map(inlineOf)}
          {/* The text of a link may look like another address. */}
          <span className="link-host"> {node.host} ↗</span>
        </a>
      )
  }
}
