/**
 * `stoa`, killed as by a power cut when it reaches a fault point in the money path.
 *
 * The first argument names the fault point; `-` means none. The other arguments go to the command line.
 */
import { armFaultPoint } from '../../src/lib/fault-point.ts'

const [place = '-'] = process.argv.splice(2, 1)
// The process dies before `kill` returns: no later code runs and no buffer is flushed.
armFaultPoint(place, () => process.kill(process.pid, 'SIGKILL'))
await import('../../src/main.ts')
