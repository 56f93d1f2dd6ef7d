import { render } from 'ink'
import { createElement } from 'react'
import { type Complete, createControls } from './controls.ts'
import { App } from './screen.ts'
import { createScreenState, type Panel } from './screen-state.ts'

/** What the text interface needs from the command line: lines in, lines out. Every text is safe to show. */
export type InterfaceDeps = {
  /** Runs a line as typed. @returns 'leave' if the user wants to leave */
  run(line: string, output: Output): Promise<'leave' | 'clear' | undefined>
  complete: Complete
  /** Calls `show` with each new content of the status panel until the signal aborts. */
  watchStatus(show: (panel: Panel) => void, signal: AbortSignal): Promise<void>
  /** Calls `show` with each line of the node's log until the signal aborts. */
  watchLog(show: (line: string) => void, signal: AbortSignal): Promise<void>
  welcome: readonly string[]
  /** Called once the screen is ready. */
  begin(print: Output['print']): void
  stdin: NodeJS.ReadStream
  stdout: NodeJS.WriteStream
  /** Ends the interface from outside: SIGTERM, or a closed terminal. */
  signal: AbortSignal
}
export type Output = { print(...lines: string[]): void; columns: number; signal: AbortSignal }

/** Draws the interface over the whole terminal until the user leaves. Then restores the previous content. */
export async function runInterface(deps: InterfaceDeps): Promise<void> {
  const state = createScreenState()
  const ended = new AbortController()
  let running: AbortController | undefined
  /** Lines typed while a command runs. They run afterwards, as in a shell. */
  const queue: string[] = []
  const leave = () => {
    queue.length = 0
    running?.abort(new Error('left'))
    instance.unmount()
  }
  const controls = createControls(state, deps.complete, {
    send(text) {
      queue.push(text)
      if (running === undefined) void carryOutAll()
    },
    interrupt() {
      if (running === undefined) return leave()
      queue.length = 0
      running.abort(new Error('interrupted'))
    },
    leave,
  })
  state.print(...deps.welcome)
  const instance = render(createElement(App, { state, controls }), {
    stdin: deps.stdin,
    stdout: deps.stdout,
    exitOnCtrlC: false,
    alternateScreen: true,
    // The caller has checked that this is a terminal.
    interactive: true,
    incrementalRendering: true,
  })
  deps.signal.addEventListener('abort', leave, { once: true })
  const watched = [
    deps.watchStatus((panel) => state.change({ panel }), ended.signal),
    deps.watchLog(state.log, ended.signal),
  ]
  try {
    deps.begin(state.print)
    if (deps.signal.aborted) leave()
    await instance.waitUntilExit()
  } finally {
    deps.signal.removeEventListener('abort', leave)
    ended.abort()
    await Promise.allSettled(watched)
  }

  async function carryOutAll(): Promise<void> {
    for (let text = queue.shift(); text !== undefined; text = queue.shift()) await carryOut(text)
  }

  async function carryOut(text: string): Promise<void> {
    running = new AbortController()
    const { signal } = running
    state.change({ busy: text.replaceAll('\n', ' ') })
    state.print('', `\u001b[36m›\u001b[39m \u001b[1m${text.replaceAll('\n', ' ')}\u001b[22m`)
    try {
      const columns = deps.stdout.columns || 80
      const wish = await deps.run(text, { print: state.print, columns, signal })
      if (wish === 'leave') leave()
      if (wish === 'clear') state.change({ output: [], back: 0 })
    } finally {
      running = undefined
      state.change({ busy: undefined })
    }
  }
}
