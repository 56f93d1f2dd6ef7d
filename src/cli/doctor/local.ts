import { join } from 'node:path'
import { isoTime } from '../../lib/clock.ts'
import { reasonOf } from '../../lib/errors.ts'
import { type Finding, fail, ok, skip, warn } from '../../lib/finding.ts'
import { checkOpenFiles, openFilesMax } from '../../lib/open-files.ts'
import { checkClosedDoor } from '../../node/public-checks.ts'
import { readWalletKey } from '../../payments/wallet-key.ts'
import { dataFile, inspectDataDir, secretFiles } from '../../store/data-dir.ts'
import { modeOf } from '../../store/secret-file.ts'
import { inspectAgents } from '../commands/agent-notices.ts'
import type { RemoteNode } from '../parts.ts'
import { printableLine } from '../text/terminal-text.ts'
import type { Check } from './check.ts'

const NODE_VERSION_MIN = [22, 18] as const

const nodeVersion: Check = {
  id: 'node_version',
  title: 'Node.js',
  async run() {
    const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
    const [majorMin, minorMin] = NODE_VERSION_MIN
    if (major > majorMin || (major === majorMin && minor >= minorMin)) return ok(process.version)
    return fail(`${process.version} is too old`, `install Node.js ${NODE_VERSION_MIN.join('.')} or later`)
  },
}

const openFiles: Check = {
  id: 'open_files',
  title: 'Open files',
  async run() {
    // The limit of this shell. A running node reports its own.
    return checkOpenFiles(openFilesMax())
  },
}

const signatures: Check = {
  id: 'signatures',
  title: 'Signatures',
  async run() {
    const { secp256k1 } = await import('../../payments/secp256k1.ts')
    if (secp256k1.name === 'native') return ok('native code checks them')
    return warn(
      'this platform has no native secp256k1, so the node checks signatures in JavaScript, 20 to 30 times slower',
      'install a C++ compiler, make and Python, then run npm rebuild secp256k1 where stoa is installed',
    )
  },
}

const dataDir: Check = {
  id: 'data_dir',
  title: 'Data directory',
  async run({ config }) {
    const { exists, mode } = await inspectDataDir(config.dataDir)
    if (!exists) return ok(`${config.dataDir}, created at the first start`)
    if (mode !== undefined && (mode & 0o077) !== 0) {
      return fail(`other users can read ${config.dataDir} (mode ${mode.toString(8)})`, `chmod 700 ${config.dataDir}`)
    }
    return ok(config.dataDir)
  },
}

const keyFiles: Check = {
  id: 'key_files',
  title: 'Key files',
  async run({ config }) {
    const findings: Finding[] = []
    let count = 0
    for (const name of secretFiles) {
      const path = join(config.dataDir, name)
      const mode = await modeOf(path)
      if (mode === undefined) continue
      count++
      if ((mode & 0o077) !== 0) {
        findings.push(fail(`other users can read ${path} (mode ${mode.toString(8)})`, `chmod 600 ${path}`))
      }
    }
    if (findings.length > 0) return findings
    return count === 0 ? ok('none yet, created at the first start') : ok(`${count}, readable only by their owner`)
  },
}

const identity: Check = {
  id: 'identity',
  title: 'Identity',
  async run({ config, running }) {
    const path = dataFile(config.dataDir, 'identity')
    const mode = await modeOf(path)
    if (mode === undefined) return ok('none yet, created at the first start')
    // Loading the identity would correct the file mode, but this command changes nothing.
    if ((mode & 0o077) !== 0) return skip('not checked: fix the key files first')
    const { loadOrCreateIdentity } = await import('../../p2p/identity.ts')
    const { peerId } = await loadOrCreateIdentity(path)
    if (running === undefined || running.file.peer_id === peerId) return ok(peerId)
    return warn(`${path} is ${peerId}, but the running node is ${running.file.peer_id}`, 'restart the node')
  },
}

/** Warns until the node has its wallet back, or the operator has dismissed the alarm. */
async function walletInUse(node: RemoteNode, signal: AbortSignal): Promise<Finding> {
  const { wallet_address: used, wallet_before: before } = await node.status({ signal })
  const alarms = before === undefined ? [] : await node.alarms({}, { signal })
  const changed = alarms.find(({ kind }) => kind === 'wallet_changed')
  if (changed === undefined) return ok(`${used}, of the running node`)
  return warn(
    `${used}, and ${before} before: what lies in the other one needs its key`,
    'start the node with the key of the wallet that it used before, or run stoa alarms dismiss wallet_changed',
  )
}

const walletKey: Check = {
  id: 'wallet_key',
  title: 'Wallet key',
  async run({ config, secrets, running }, signal) {
    // The node's key may come from an environment variable that this shell does not have.
    if (running !== undefined) return walletInUse(running.node, signal)
    const key = await readWalletKey(config.dataDir, secrets)
    if (key === undefined) return ok('none yet, created at the first start or by stoa wallet')
    const { walletAddress } = await import('../../payments/wallet.ts')
    const source = secrets.walletKey === undefined ? dataFile(config.dataDir, 'wallet') : 'the environment'
    return ok(`${walletAddress(key)}, from ${source}`)
  },
}

const agents: Check = {
  id: 'agents',
  title: 'Agents',
  async run({ config, secrets, agents }) {
    if (agents.length === 0) return skip(`none in ${dataFile(config.dataDir, 'agents')}`)
    const notices = await inspectAgents(agents, secrets, config.dataDir)
    if (notices.length === 0) return ok(`${agents.length}, all able to run`)
    const fix = `change ${dataFile(config.dataDir, 'agents')} or the environment, then restart the node`
    return notices.map(({ definition, text, broken, lacks }) => {
      const line = `${printableLine(definition.name, 40)}: ${text}`
      // Workers join a running node, so without one none can be there.
      if (lacks === 'worker') return warn(line, 'start the node, and then stoa worker on the other machine')
      return broken || lacks !== undefined ? fail(line, fix) : warn(line, fix)
    })
  },
}

const publicListener: Check = {
  id: 'public',
  title: 'Public listener',
  async run({ config, parts }) {
    const { port, url, tls } = config.public
    if (port === undefined) return checkClosedDoor(config.public)
    if (tls === undefined) return skip('not known: the node does not run, and the listener has no TLS files')
    const { inspectTls } = await import('../../http/public/public-tls.ts')
    try {
      const { expiresAt, notes } = await inspectTls(tls, { url, now: parts.clock.now() })
      if (notes.length > 0) return notes.map((note) => warn(note, 'see docs/doors.md, TLS'))
      return ok(`its TLS files fit together; the certificate holds until ${isoTime(expiresAt)}`)
    } catch (error) {
      return fail(`the node will not start: ${reasonOf(error)}`, 'repair public.tls_cert and public.tls_key')
    }
  },
}

/** Reads settings with their keys, as a start does. @param read says what it found */
function asStarted(read: () => string): Finding {
  try {
    return ok(read())
  } catch (error) {
    return fail(`the node will not start: ${reasonOf(error)}`, 'set the variable, or name another one in config.yaml')
  }
}

const catalogs: Check = {
  id: 'sources',
  title: 'Catalogs',
  async run({ config, secrets }) {
    if ((config.sources ?? []).length === 0) return skip('none: sources in config.yaml')
    const { configuredSources } = await import('../../node/sources.ts')
    return asStarted(() => `${configuredSources(config, secrets).length}, asked by a running node`)
  },
}

const webhooks: Check = {
  id: 'webhooks',
  title: 'Webhooks',
  async run({ config, secrets, running }) {
    // A running node has their keys.
    if (running !== undefined || (config.webhooks ?? []).length === 0) return []
    const { configuredWebhooks } = await import('../../node/configured-webhooks.ts')
    return asStarted(() => `${configuredWebhooks(config, secrets).length} in config.yaml`)
  },
}

export const localChecks: readonly Check[] = [
  nodeVersion,
  openFiles,
  signatures,
  dataDir,
  keyFiles,
  identity,
  walletKey,
  agents,
  publicListener,
  catalogs,
  webhooks,
]
