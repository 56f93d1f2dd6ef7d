import { type FileHandle, open } from 'node:fs/promises'

/** Sizes and offsets of SQLite's file formats: https://www.sqlite.org/walformat.html */
const WAL_HEADER_BYTES = 32
const FRAME_HEADER_BYTES = 24
const INDEX_BYTES = 100
const INDEX_VERSION = 3_007_000
/** The first word of a log whose checksums read its words in little endian. */
const LITTLE_ENDIAN_LOG = 0x377f0682

/**
 * How many frames of a killed process the write-ahead log has lost; 0 for none.
 *
 * SQLite takes a log for one that ends before the first frame that is cut off or damaged. But the index beside it (`-shm`)
 * says how far it was on disk. A clean close removes both files. Call it only on a file that nobody has open.
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
  const there = isSame ? await wholeFrames(`${databasePath}-wal`, { log, pageBytes, most: written }) : 0
  return Math.max(0, written - Math.max(there, inDatabase))
}

/** How many frames from the first on are whole, at most `most`. Each checksum goes on from the one before. */
async function wholeFrames(
  path: string,
  { log, pageBytes, most }: { log: Buffer; pageBytes: number; most: number },
): Promise<number> {
  await using file = await open(path, 'r')
  const word = log.readUInt32BE(0) === LITTLE_ENDIAN_LOG ? readLittle : readBig
  const frame = Buffer.alloc(FRAME_HEADER_BYTES + pageBytes)
  let sums: FrameSums = [log.readUInt32BE(24), log.readUInt32BE(28)]
  for (let count = 0; count < most; count++) {
    const isThere = await readWhole(file, frame, WAL_HEADER_BYTES + count * frame.length)
    if (!isThere || !frame.subarray(8, 16).equals(log.subarray(16, 24))) return count
    sums = summed(summed(sums, frame.subarray(0, 8), word), frame.subarray(FRAME_HEADER_BYTES), word)
    if (frame.readUInt32BE(16) !== sums[0] || frame.readUInt32BE(20) !== sums[1]) return count
  }
  return most
}

async function readWhole(file: FileHandle, into: Buffer, at: number): Promise<boolean> {
  return (await file.read(into, 0, into.length, at)).bytesRead === into.length
}

type FrameSums = [first: number, second: number]
type ReadWord = (bytes: Buffer, at: number) => number
const readLittle: ReadWord = (bytes, at) => bytes.readUInt32LE(at)
const readBig: ReadWord = (bytes, at) => bytes.readUInt32BE(at)

/** SQLite's checksum of a log, over words of 32 bits. */
function summed([first, second]: FrameSums, bytes: Buffer, word: ReadWord): FrameSums {
  for (let at = 0; at < bytes.length; at += 8) {
    first = (first + word(bytes, at) + second) >>> 0
    second = (second + word(bytes, at + 4) + first) >>> 0
  }
  return [first, second]
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
