import type { ChildProcess } from 'node:child_process'

/** What a program gets between being asked and being made to end. */
const KILL_AFTER_MS = 1000

/** A child started with `detached: true`, and everything it starts in turn. */
export interface ProcessGroup {
  /** Asks all of it to end, and makes it end a second later. */
  stop(): void
  kill(): void
}

const alive = new Set<ProcessGroup>()

/**
 * Takes charge of a child's process group: no member outlives the child, nor this process.
 *
 * A process that leaves the group (`setsid`) is beyond reach; nothing but a container holds that one.
 */
export function processGroup(child: ChildProcess): ProcessGroup {
  let killTimer: NodeJS.Timeout | undefined
  let hasExited = child.pid === undefined
  const group: ProcessGroup = {
    stop() {
      if (hasExited || killTimer !== undefined) return
      signalGroup(child, 'SIGTERM')
      killTimer = setTimeout(group.kill, KILL_AFTER_MS)
    },
    kill() {
      // Once the child is gone its number may soon be another's.
      if (!hasExited) signalGroup(child, 'SIGKILL')
    },
  }
  if (hasExited) return group
  if (alive.size === 0) process.once('exit', killAll)
  alive.add(group)
  child.once('exit', () => {
    group.kill()
    hasExited = true
    clearTimeout(killTimer)
    alive.delete(group)
    if (alive.size === 0) process.off('exit', killAll)
  })
  return group
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
