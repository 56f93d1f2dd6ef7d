import { readFileSync } from 'node:fs'

/** Below this a node cannot do its work; the other is what all its connections, runs and doors may need together. */
export const OPEN_FILES_MIN = 256
export const OPEN_FILES_WANTED = 1024

/** How many files and connections this process may have open; undefined where the system does not say so in a file. */
export function openFilesMax(limits = '/proc/self/limits'): number | undefined {
  try {
    const match = /^Max open files\s+(\d+)/m.exec(readFileSync(limits, 'utf8'))
    return match === null ? undefined : Number(match[1])
  } catch {
    return undefined
  }
}
