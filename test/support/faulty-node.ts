/**
 * `stoa`, killed as by a power cut when it reaches a fault point in the money path.
 *
 * The first argument names the fault point; `-` means none, and a leading `@` that the signal SIGUSR2 arms it. The other
 * arguments go to the command line.
 */
import { armFaultPoint } from '../../src/lib/fault-point.ts'

/** What the process says when the signal has armed its fault point. */
const ARMED = 'the fault point is armed'
const [place = '-'] = process.argv.splice(2, 1)
// The process dies before `kill` returns: no later code runs and no buffer is flushed.
const arm = () => armFaultPoint(place.replace('@', ''), () => process.kill(process.pid, 'SIGKILL'))
if (!place.startsWith('@')) arm()
else {
  process.on('SIGUSR2', () => {
    arm()
    process.stderr.write(`${ARMED}\n`)
  })
}
await import('../../src/main.ts')
