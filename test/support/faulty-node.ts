/**
 * `stoa`, killed as by a power cut when it reaches a fault point in the money path.
 *
 * The first argument names the fault point; `-` means none. The other arguments go to the command line. With
 * STOA_TEST_SHARED the node shares its ledger with other processes.
 */
import { armFaultPoint } from '../../src/lib/fault-point.ts'

const [place = '-'] = process.argv.splice(2, 1)
// The process dies before `kill` returns: no later code runs and no buffer is flushed.
armFaultPoint(place, () => process.kill(process.pid, 'SIGKILL'))
if (process.env.STOA_TEST_SHARED !== undefined) {
  const { systemParts } = await import('../../src/cli/parts.ts')
  const { createNode } = await import('../../src/node/create-node.ts')
  Object.assign(systemParts, {
    createNode: (...[config, secrets, ports]: Parameters<typeof createNode>) =>
      createNode(config, secrets, { ...ports, isShared: true }),
  })
}
await import('../../src/main.ts')
