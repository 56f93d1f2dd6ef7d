import { readFileSync } from 'node:fs'
import { type Finding, fail, ok, skip, warn } from './finding.ts'

/** A node cannot work with fewer than MIN open files. WANTED covers all its connections and runs together. */
export const OPEN_FILES_MIN = 256
export const OPEN_FILES_WANTED = 1024

export const RAISE_OPEN_FILES =
  `raise it with \`ulimit -n ${OPEN_FILES_WANTED}\` in the shell that starts the node, LimitNOFILE=${OPEN_FILES_WANTED} under ` +
  `[Service] of the systemd unit (then systemctl daemon-reload), or --ulimit nofile=${OPEN_FILES_WANTED} of the container; start the node again`

/** Maximum of open files and connections of this process. Undefined if the system does not report it in a file. */
export function openFilesMax(limits = '/proc/self/limits'): number | undefined {
  try {
    const match = /^Max open files\s+(\d+)/m.exec(readFileSync(limits, 'utf8'))
    return match === null ? undefined : Number(match[1])
  } catch {
    return undefined
  }
}

export function checkOpenFiles(most: number | undefined): Finding {
  if (most === undefined) return skip('the system does not say how many there may be, or sets no limit (ulimit -n)')
  const may = `${most} files and connections may be open`
  if (most >= OPEN_FILES_WANTED) return ok(may)
  const lacks = most < OPEN_FILES_MIN ? 'no node starts with so few' : 'it takes fewer connections'
  const text = `${may}, and a busy node needs ${OPEN_FILES_WANTED}: ${lacks}`
  return most < OPEN_FILES_MIN ? fail(text, RAISE_OPEN_FILES) : warn(text, RAISE_OPEN_FILES)
}
