import { closeSync, fchmodSync, fstatSync, openSync, renameSync, writeSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { pause } from '../lib/wait.ts'

/** Size limit of the log file. The previous file may have the same size. */
const FILE_BYTES_MAX = 4 * 1024 * 1024
const LOOK_MS = 200

export type LogFile = { write(line: string): void; close(): void }

/**
 * The node's log on disk, for `stoa logs` and the text interface. Two files of at most `bytesMax` each, readable by the
 * owner only.
 *
 * Writes are synchronous, because the last lines before a crash matter most. A full disk loses log lines, nothing else.
 */
export function createLogFile(path: string, { bytesMax = FILE_BYTES_MAX }: { bytesMax?: number } = {}): LogFile {
  let file: { fd: number; bytes: number } | undefined
  const opened = () => {
    const fd = openSync(path, 'a', 0o600)
    fchmodSync(fd, 0o600)
    file = { fd, bytes: fstatSync(fd).size }
    return file
  }
  const close = () => {
    if (file !== undefined) closeSync(file.fd)
    file = undefined
  }
  return {
    write(line) {
      try {
        const bytes = Buffer.from(line)
        if ((file ?? opened()).bytes + bytes.length > bytesMax && file!.bytes > 0) {
          close()
          renameSync(path, `${path}.1`)
        }
        const current = file ?? opened()
        current.bytes += writeSync(current.fd, bytes)
      } catch {
        // Ignore the error: there is no place left to report it. Standard error has the line too.
      }
    },
    close,
  }
}

/** Returns the last lines of the log, oldest first. Continues into the previous file if needed. */
export async function readLogTail(path: string, linesMax: number): Promise<string[]> {
  const lines = linesOf(await readFrom(path, 0))
  if (lines.length >= linesMax) return lines.slice(-linesMax)
  return [...linesOf(await readFrom(`${path}.1`, 0)), ...lines].slice(-linesMax)
}

/** Yields lines written after this call. Waits for a missing file. Ends with the signal. */
export async function followLog(path: string, signal: AbortSignal): Promise<AsyncGenerator<string>> {
  return newLines(path, await fileAt(path), signal)
}

async function* newLines(
  path: string,
  start: { ino: number; size: number } | undefined,
  signal: AbortSignal,
): AsyncGenerator<string> {
  let position = start?.size ?? 0
  let inode = start?.ino
  while (!signal.aborted) {
    const now = await fileAt(path)
    if (now !== undefined && (now.ino !== inode || now.size < position)) {
      // The log has rotated. The previous file holds the lines since the last check.
      if (inode !== undefined) yield* linesOf(await readFrom(`${path}.1`, position))
      ;[inode, position] = [now.ino, 0]
    }
    const text = await readFrom(path, position)
    position += Buffer.byteLength(text)
    yield* linesOf(text)
    if (text === '') await pause(LOOK_MS, signal)
  }
}

async function fileAt(path: string): Promise<{ ino: number; size: number } | undefined> {
  try {
    await using file = await open(path)
    const { ino, size } = await file.stat()
    return { ino, size }
  } catch {
    return undefined
  }
}

/** Reads whole lines from a position. A line that is not complete is read next time. */
async function readFrom(path: string, position: number): Promise<string> {
  try {
    await using file = await open(path)
    const { size } = await file.stat()
    if (size <= position) return ''
    const bytes = Buffer.alloc(size - position)
    const { bytesRead } = await file.read(bytes, 0, bytes.length, position)
    const end = bytes.subarray(0, bytesRead).lastIndexOf(0x0a)
    return bytes.subarray(0, end + 1).toString('utf8')
  } catch {
    return ''
  }
}

function linesOf(text: string): string[] {
  return text.split('\n').filter((line) => line !== '')
}
