/**
 * `stoa`, ended as by a power cut when it reaches a place in the money path.
 *
 * The first argument names the place, `-` none; the others are those of the command line.
 */
import { armFaultPoint } from '../../src/lib/fault-point.ts'

const [place = '-'] = process.argv.splice(2, 1)
// SIGKILL to oneself is taken before the call returns: nothing after the place runs, nothing is flushed.
armFaultPoint(place, () => process.kill(process.pid, 'SIGKILL'))
await import('../../src/main.ts')
