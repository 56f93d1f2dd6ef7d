import { open, stat } from 'node:fs/promises'

/** Sizes and offsets of SQLite's file formats: https://www.sqlite.org/walformat.html */
const WAL_HEADER_BYTES = 32
const FRAME_HEADER_BYTES = 24
const INDEX_BYTES = 100
const INDEX_VERSION = 3_007_000

/**
 * How many frames of a killed process the write-ahead log has lost; 0 for none.
 *
 * SQLite takes a truncated log for a log that was never longer. But the index beside it (`-shm`) says how far it was on
 * disk. A clean close removes both files. Call it only on a file that nobody has open.
 */
export async function lostFrames(databasePath: string): Promise<number> {
  const index = await head(`${databasePath}-shm`, INDEX_BYTES)
  if (index === undefined || index.length < INDEX_BYTES) return 0
  const little = index.readUInt32LE(0) === INDEX_VERSION
  const word = (at: number) => (little ? index.readUInt32LE(at) : index.readUInt32BE(at))
  const half = (at: number) => (little ? index.readUInt16LE(at) : index.readUInt16BE(at))
  // Two copies, written one after the other. If they differ, nothing is certain.
  if (word(0) !== INDEX_VERSION || index[12] !== 1 || !index.subarray(0, 48).equals(index.subarray(48, 96))) return 0
  const pageBytes = half(14) === 1 ? 65_536 : half(14)
  const written = word(16)
  const inDatabase = word(96)
  if (written <= inDatabase || pageBytes < 512) return 0
  const log = await head(`${databasePath}-wal`, WAL_HEADER_BYTES)
  // A restarted log has another salt, which the index on disk does not know yet.
  const isSame =
    log !== undefined && log.length === WAL_HEADER_BYTES && log.subarray(16, 24).equals(index.subarray(32, 40))
  if (log !== undefined && log.length === WAL_HEADER_BYTES && !isSame) return 0
  const bytes = isSame ? (await stat(`${databasePath}-wal`)).size : 0
  const there = Math.floor(Math.max(0, bytes - WAL_HEADER_BYTES) / (FRAME_HEADER_BYTES + pageBytes))
  return Math.max(0, written - Math.max(there, inDatabase))
}

async function head(path: string, length: number): Promise<Buffer | undefined> {
  try {
    await using file = await open(path, 'r')
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, 0)
    return buffer.subarray(0, bytesRead)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
