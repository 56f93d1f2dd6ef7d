import type { ChildProcess } from 'node:child_process'

/** What a program gets between being asked and being made to end. */
const KILL_AFTER_MS = 1000

/** A child started with `detached: true`, and everything it starts in turn. */
export interface ProcessGroup {
  /** Asks all of it to end, and makes it end a second later. */
  stop(): void
  /** Makes all of it end. */
  kill(): void
}

const alive = new Set<ProcessGroup>()

/**
 * Takes charge of a child's process group: no member outlives the child, nor this process.
 *
 * A process that leaves the group (`setsid`) is beyond reach; nothing but a container holds that one.
 *
 * @param options.lingers the others may go on when the child has ended, until whoever called ends them by `kill`
 */
export function processGroup(child: ChildProcess, { lingers = false } = {}): ProcessGroup {
  let killTimer: NodeJS.Timeout | undefined
  let hasExited = false
  let isOver = false
  const group: ProcessGroup = {
    stop() {
      if (isOver || killTimer !== undefined) return
      signalGroup(child, 'SIGTERM')
      killTimer = setTimeout(group.kill, KILL_AFTER_MS)
    },
    kill() {
      if (isOver) return
      // Once the child is gone and its group is empty, its number may be another's.
      if (!hasExited || !isTaken(child.pid!)) signalGroup(child, 'SIGKILL')
      if (hasExited) end()
    },
  }
  const end = () => {
    isOver = true
    clearTimeout(killTimer)
    alive.delete(group)
    if (alive.size === 0) process.off('exit', killAll)
  }
  if (alive.size === 0) process.once('exit', killAll)
  alive.add(group)
  child.once('exit', () => {
    hasExited = true
    if (!lingers || killTimer !== undefined) group.kill()
  })
  return group
}

function isTaken(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

function killAll(): void {
  for (const group of alive) group.kill()
}

function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  try {
    process.kill(-child.pid!, signal)
  } catch (error) {
    // ESRCH: all gone. Otherwise, as on Windows, where there are no groups: the child at least.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') child.kill(signal)
  }
}
