/**
 * A trade host in a process of its own. It prints its addresses, and answers each stream with the name of the process. One named
 * `full` ends each stream at once.
 */
import { silentLogger } from '../../src/lib/logger.ts'
import { loadOrCreateIdentity } from '../../src/p2p/identity.ts'
import { startTestHost } from './test-host.ts'

const [keyFile = '', name = ''] = process.argv.slice(2)
const identity = await loadOrCreateIdentity(keyFile, { logger: silentLogger })
const host = await startTestHost({ role: 'trade', identity })
await host.handle('/test/name/1.0.0', (stream) => {
  if (name === 'full') return stream.abort(new Error('too many streams'))
  stream.addEventListener('message', () => stream.send(new TextEncoder().encode(name)))
})
process.stdout.write(`${JSON.stringify(host.addresses())}\n`)
