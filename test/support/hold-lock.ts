/** A separate process that locks the given directory, reports the lock, and holds it until it is killed. */
import { lockDataDir } from '../../src/store/lock.ts'

const [dataDir = ''] = process.argv.slice(2)
try {
  const lock = lockDataDir(dataDir)
  process.on('SIGTERM', () => {
    lock.release()
    process.exit(0)
  })
  process.stdout.write('held\n')
  setInterval(() => {}, 1000)
} catch (error) {
  process.stdout.write(`${(error as Error).message}\n`)
  process.exit(1)
}
