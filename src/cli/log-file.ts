import { closeSync, fchmodSync, fstatSync, openSync, renameSync, writeSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'

/** Of the log and of the one before it. */
const FILE_BYTES_MAX = 4 * 1024 * 1024
const LOOK_MS = 200

export type LogFile = { write(line: string): void; close(): void }

/**
 * The node's log on disk, for `stoa logs` and the text interface: at most twice `bytesMax`, readable by its owner only.
 *
 * Written at once, not behind: the last lines before a crash are those that are wanted. A disk that takes no more loses
 * lines and nothing else.
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
        // There is nowhere left to say so; standard error has the line.
      }
    },
    close,
  }
}

/** The last lines of the log, the oldest first, over the turn from one file to the next. */
export async function readLogTail(path: string, linesMax: number): Promise<string[]> {
  const lines = linesOf(await readFrom(path, 0))
  if (lines.length >= linesMax) return lines.slice(-linesMax)
  return [...linesOf(await readFrom(`${path}.1`, 0)), ...lines].slice(-linesMax)
}

/** Lines as they are written from this call on; waits for a file that is not there yet. Ends with the signal. */
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
      // What was written between the last look and the turn is in the file before.
      if (inode !== undefined) yield* linesOf(await readFrom(`${path}.1`, position))
      ;[inode, position] = [now.ino, 0]
    }
    const text = await readFrom(path, position)
    position += Buffer.byteLength(text)
    yield* linesOf(text)
    if (text === '') await delay(LOOK_MS, undefined, { signal }).catch(() => {})
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

/** Whole lines from a position on: a character that is half written comes with the next look. */
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
