import { OPEN_FILES_MIN, OPEN_FILES_WANTED, openFilesMax, RAISE_OPEN_FILES } from '../lib/open-files.ts'
import { CliError } from './exit-code.ts'

/**
 * Checks that this process may open as many files and connections as a node needs.
 *
 * @returns a warning if the limit may be too low for a busy node
 * @throws CliError if the limit is too low for any node
 */
export function checkOpenFiles(most = openFilesMax()): string[] {
  if (most === undefined || most >= OPEN_FILES_WANTED) return []
  const limit = `the limit of open files and connections of this process is ${most}`
  if (most < OPEN_FILES_MIN)
    throw new CliError('FAILED', `${limit}, and a node needs ${OPEN_FILES_WANTED}: ${RAISE_OPEN_FILES}`)
  return [
    `${limit}, and a busy node needs ${OPEN_FILES_WANTED}, so this node keeps fewer connections: ${RAISE_OPEN_FILES}`,
  ]
}
