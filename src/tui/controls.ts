import type { Key } from 'ink'
import * as editor from './line-editor.ts'
import { type Line, textOf } from './line-editor.ts'
import type { ScreenState } from './screen-state.ts'

type KeyActions = {
  send(text: string): void
  /** Ctrl-C: stops the running command, or leaves if none runs. */
  interrupt(): void
  leave(): void
}

type Completion = { from: number; candidates: readonly string[] }
export type Complete = (text: string) => Completion

export function createControls(state: ScreenState, complete: Complete, actions: KeyActions) {
  const edit = (change: (line: Line) => Line) => {
    const line = change(state.get().line)
    const text = editor.beforeCursor(line)
    state.change({ line, candidates: text === '' ? [] : complete(text).candidates })
  }
  const controlled: Readonly<Record<string, () => void>> = {
    a: () => edit(editor.toStart),
    e: () => edit(editor.toEnd),
    b: () => edit((line) => editor.move(line, -1)),
    f: () => edit((line) => editor.move(line, 1)),
    u: () => edit(editor.deleteToStart),
    k: () => edit(editor.deleteToEnd),
    w: () => edit(editor.deleteWord),
    l: () => state.change({ output: [], back: 0 }),
    p: () => state.recall(-1),
    n: () => state.recall(1),
    c: () => actions.interrupt(),
    d: () => (textOf(state.get().line) === '' ? actions.leave() : edit(editor.deleteForward)),
  }

  function send(): void {
    const text = textOf(state.get().line).trim()
    if (text === '') return
    state.remember()
    actions.send(text)
  }

  function fill(): void {
    const { line } = state.get()
    const { from, candidates } = complete(editor.beforeCursor(line))
    const [only] = candidates
    if (only === undefined) return
    const text = candidates.length === 1 ? `${only} ` : commonStart(candidates)
    edit((current) => editor.replaceFrom(current, from, text))
    if (candidates.length > 1) state.change({ candidates })
  }

  const scroll = (by: number) => state.change({ back: Math.max(0, state.get().back + by) })

  return {
    press(input: string, key: Partial<Key>, page: number): void {
      if (key.ctrl) controlled[input]?.()
      else if (key.return) send()
      else if (key.tab) fill()
      else if (key.upArrow) state.recall(-1)
      else if (key.downArrow) state.recall(1)
      else if (key.leftArrow) edit((line) => editor.move(line, -1))
      else if (key.rightArrow) edit((line) => editor.move(line, 1))
      else if (key.home) edit(editor.toStart)
      else if (key.end) edit(editor.toEnd)
      else if (key.pageUp) scroll(page)
      else if (key.pageDown) scroll(-page)
      else if (key.backspace) edit(editor.backspace)
      else if (key.delete) edit(editor.deleteForward)
      else if (key.escape) edit(() => editor.emptyLine)
      else if (!key.meta) this.type(input)
    },
    /** Text in one piece, as from fast typing or slow connections. Control characters in it act as keys. */
    type(input: string): void {
      for (const part of input.match(/\p{Cc}|\P{Cc}+/gu) ?? []) {
        if (part === '\r' || part === '\n') send()
        else if (part === '\t') fill()
        else if (part === '\u007f' || part === '\b') edit(editor.backspace)
        else insert(part)
      }
    },
    /** Inserts pasted text. Line ends in it never run the line. */
    paste(text: string): void {
      insert(text.replace(/\r\n?/g, '\n').replace(/\n+$/, ''), true)
    },
  }

  function insert(text: string, keepsLines = false): void {
    const clean = text.replace(keepsLines ? /(?!\n)\p{Cc}/gu : /\p{Cc}/gu, '')
    if (clean !== '') edit((line) => editor.insert(line, clean))
  }
}
export type Controls = ReturnType<typeof createControls>

function commonStart(texts: readonly string[]): string {
  let start = texts[0] ?? ''
  for (const text of texts) while (!text.startsWith(start)) start = start.slice(0, -1)
  return start
}
