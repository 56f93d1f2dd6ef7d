import { Box, Text, useInput, usePaste, useWindowSize } from 'ink'
import { createElement as h, type ReactElement, useSyncExternalStore } from 'react'
import type { Controls } from './controls.ts'
import { visible } from './line-editor.ts'
import type { Panel, Screen, ScreenState } from './screen-state.ts'
import { lastRows, wrap } from './wrap.ts'

/** Smallest usable terminal. */
const COLUMNS_MIN = 40
const ROWS_MIN = 10
const PANEL_ROWS_MAX = 2
const CANDIDATES_SHOWN = 40

export function App({ state, controls }: { state: ScreenState; controls: Controls }): ReactElement {
  const screen = useSyncExternalStore(state.subscribe, state.get)
  const { columns, rows } = useWindowSize()
  const heights = layout(rows)
  useInput((input, key) => controls.press(input, key, Math.max(1, heights.output - 1)))
  usePaste((text) => controls.paste(text))
  if (columns < COLUMNS_MIN || rows < ROWS_MIN) {
    const sentence = `stoa needs a terminal of ${COLUMNS_MIN}×${ROWS_MIN}. This terminal is ${columns}×${rows}. Ctrl-C leaves.`
    return h(Text, null, sentence)
  }
  return h(
    Box,
    { flexDirection: 'column', width: columns, height: rows - 1 },
    ...panelRows(screen.panel, columns).map((row, index) =>
      h(Text, { key: `panel-${index}`, wrap: 'truncate-end' }, row),
    ),
    rule('output', columns, screen.back > 0 ? `${screen.back} rows below: Page Down` : ''),
    h(Rows, {
      key: 'output-rows',
      height: heights.output,
      rows: lastRows(screen.output, { width: columns, height: heights.output, back: screen.back }),
    }),
    rule('log', columns, 'log'),
    h(Rows, {
      key: 'log-rows',
      height: heights.log,
      rows:
        screen.log.length === 0
          ? ['no log lines yet']
          : screen.log.slice(-heights.log).map((line) => cut(line, columns)),
    }),
    rule('input', columns, screen.busy === undefined ? '' : `${screen.busy}: Ctrl-C cancels`),
    h(CommandLine, { key: 'command', screen, columns }),
    h(Text, { key: 'hint', dimColor: true, wrap: 'truncate-end' }, hint(screen)),
  )
}

/** Rows of each part. One row at the bottom stays free, so that the terminal never scrolls. */
function layout(rows: number): { output: number; log: number } {
  const log = rows >= 20 ? 4 : rows >= 14 ? 2 : 1
  return { log, output: Math.max(1, rows - 1 - PANEL_ROWS_MAX - log - 3 - 2) }
}

/** The panel's parts side by side, as many as fit. */
function panelRows({ parts }: Panel, columns: number): string[] {
  const rows = parts.slice(0, PANEL_ROWS_MAX).map((row) => {
    let text = ''
    for (const part of row) {
      const longer = text === '' ? part : `${text}  ${part}`
      if (plain(longer).length > columns) break
      text = longer
    }
    return text
  })
  while (rows.length < PANEL_ROWS_MAX) rows.push(' ')
  return rows
}

function Rows({ rows, height }: { rows: readonly string[]; height: number }): ReactElement {
  return h(
    Box,
    { flexDirection: 'column', height, overflow: 'hidden' },
    ...rows.map((row, index) => h(Text, { key: index, wrap: 'truncate-end' }, row === '' ? ' ' : row)),
  )
}

function CommandLine({ screen, columns }: { screen: Screen; columns: number }): ReactElement {
  const { before, under, after } = visible(screen.line, columns - 3)
  return h(
    Text,
    { wrap: 'truncate-end' },
    h(Text, { key: 'prompt', bold: true, color: 'cyan' }, '› '),
    before,
    h(Text, { key: 'cursor', inverse: true }, under),
    after,
  )
}

function rule(key: string, columns: number, title: string): ReactElement {
  const text = title === '' ? '─'.repeat(columns) : `── ${title} `.padEnd(columns, '─')
  return h(Text, { key: `rule-${key}`, dimColor: true, wrap: 'truncate-end' }, text)
}

function hint({ candidates, line, output }: Screen): string {
  if (candidates.length > 0) {
    const more = candidates.length > CANDIDATES_SHOWN ? ' …' : ''
    return `Tab: ${candidates.slice(0, CANDIDATES_SHOWN).join('  ')}${more}`
  }
  if (line.characters.length > 0) return 'Enter runs the command · Esc clears the line'
  return output.length === 0
    ? '/help lists the commands · Tab completes · Ctrl-C leaves'
    : '/help · Tab completes · ↑ history · Page Up scrolls · Ctrl-C leaves'
}

function cut(line: string, columns: number): string {
  return wrap(line, columns)[0] ?? ''
}

function plain(text: string): string {
  return text.replace(/\p{Cc}\[[0-9;]*m/gu, '')
}
