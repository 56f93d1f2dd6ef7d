import { execFileSync } from 'node:child_process'
import { closeSync, openSync, writeSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'

const SIZE_MB = 64

/** A small file system that a test can fill. It needs the right to mount (root on Linux). */
export type Disk = { readonly path: string; fill(): void; free(): Promise<void>; remove(): void }

/** Undefined if this user may not mount. */
export async function mountDisk(path: string): Promise<Disk | undefined> {
  await mkdir(path, { recursive: true })
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE_MB}m,mode=0700`, 'stoa-chaos', path], { stdio: 'ignore' })
  } catch {
    return undefined
  }
  const ballast = join(path, 'ballast')
  return {
    path,
    fill() {
      const file = openSync(ballast, 'a')
      const block = Buffer.alloc(64 * 1024)
      try {
        for (let size = block.length; size >= 1; size = Math.floor(size / 2)) {
          try {
            while (writeSync(file, block, 0, size) > 0);
          } catch {}
        }
      } finally {
        closeSync(file)
      }
    },
    free: () => rm(ballast, { force: true }),
    remove() {
      execFileSync('umount', ['-l', path], { stdio: 'ignore' })
    },
  }
}
