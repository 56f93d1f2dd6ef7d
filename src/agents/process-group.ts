import type { ChildProcess } from 'node:child_process'

/** Time between SIGTERM and SIGKILL. */
const KILL_AFTER_MS = 1000

/** A child started with `detached: true`, and all its descendants in the group. */
export interface ProcessGroup {
  /** Sends SIGTERM to the group, and SIGKILL 1 s later. */
  stop(): void
  kill(): void
}

const alive = new Set<ProcessGroup>()

/**
 * Manages a child's process group. No member outlives the child or this process, except one that leaves the group
 * (`setsid`), and all of them if this process is killed by SIGKILL: only a container can hold these.
 * @param options.lingers keep the other members after the child has exited, until the caller calls `kill`
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
      // After the child is gone and its group is empty, the id may belong to another process.
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
    // ESRCH: the group is empty. Otherwise, signal at least the child.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') child.kill(signal)
  }
}
