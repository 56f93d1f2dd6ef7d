import { readFileSync } from 'node:fs'
import { type Finding, fail, ok, skip, warn } from './finding.ts'

/** Below this a node cannot do its work; the other is what all its connections, runs and doors may need together. */
export const OPEN_FILES_MIN = 256
export const OPEN_FILES_WANTED = 1024

/** What an operator does about a limit that is too low. */
export const RAISE_OPEN_FILES =
  `raise it with \`ulimit -n ${OPEN_FILES_WANTED}\` in the shell that starts the node, LimitNOFILE=${OPEN_FILES_WANTED} under ` +
  `[Service] of the systemd unit (then systemctl daemon-reload), or --ulimit nofile=${OPEN_FILES_WANTED} of the container; start the node again`

/** How many files and connections this process may have open; undefined where the system does not say so in a file. */
export function openFilesMax(limits = '/proc/self/limits'): number | undefined {
  try {
    const match = /^Max open files\s+(\d+)/m.exec(readFileSync(limits, 'utf8'))
    return match === null ? undefined : Number(match[1])
  } catch {
    return undefined
  }
}

/** Whether a limit is enough for a node. */
export function checkOpenFiles(most: number | undefined): Finding {
  if (most === undefined) return skip('the system does not say how many there may be, or sets no limit (ulimit -n)')
  const may = `${most} files and connections may be open`
  if (most >= OPEN_FILES_WANTED) return ok(may)
  const lacks = most < OPEN_FILES_MIN ? 'no node starts with so few' : 'it takes fewer connections'
  const text = `${may}, and a busy node needs ${OPEN_FILES_WANTED}: ${lacks}`
  return most < OPEN_FILES_MIN ? fail(text, RAISE_OPEN_FILES) : warn(text, RAISE_OPEN_FILES)
}
