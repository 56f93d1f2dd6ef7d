import { readAgentsFile } from '../../config/agents-yaml.ts'
import type { Config } from '../../config/config.ts'
import type { Secrets } from '../../config/secrets.ts'
import { HostText, PortText, UrlText } from '../../config/values.ts'
import { reasonOf } from '../../lib/errors.ts'
import { type Finding, fail, findWithin, ok, skip } from '../../lib/finding.ts'
import type { Diagnosis } from '../../schema/diagnosis.ts'
import { dataFile } from '../../store/data-dir.ts'
import { lockHolder } from '../../store/lock.ts'
import { type NodeFile, readNodeFile } from '../../store/node-file.ts'
import { type Context, command, option } from '../command.ts'
import { exitCodes } from '../exit-code.ts'
import { networkOptions } from '../node-access/network-options.ts'
import { findRunningNode, type RunningNode } from '../node-access/running-node.ts'
import type { RemoteNode } from '../parts.ts'
import { waiting } from '../text/spinner.ts'
import { printableLine } from '../text/terminal-text.ts'
import { chainChecks } from './chain.ts'
import type { Check, Patient } from './check.ts'
import { databaseCheck } from './database.ts'
import { ledgerCheck } from './ledger.ts'
import { localChecks } from './local.ts'
import { networkChecks } from './network.ts'

const CHECK_MS_MAX = 5000

type FindingRow = Finding & { id: string; title: string }

export const doctor = command({
  name: 'doctor',
  summary: 'Find problems with keys, ports, clock, chain, facilitator, agents and peers, and suggest fixes',
  details:
    'The command changes nothing. A running node checks itself with its own settings. If no node is running, pass the flags that you start the node with.',
  examples: [
    'stoa doctor',
    'stoa doctor --data-dir ./seller --port 4002',
    'stoa doctor --json | jq ".checks[] | select(.state == \\"fail\\")"',
  ],
  options: {
    ...networkOptions,
    apiHost: option('--api-host <host>', 'address of the HTTP API', HostText),
    apiPort: option('--api-port <port>', 'port of the HTTP API', PortText),
    facilitatorUrl: option('--facilitator-url <url>', 'x402 facilitator', UrlText),
  },
  async run(context, flags) {
    const { config, secrets } = await context.loadConfig(flags)
    const rows = await waiting(context, 'checking', () => examine(context, config, secrets))
    context.io.signal.throwIfAborted()
    const failed = rows.filter(({ state }) => state === 'fail').length
    if (context.json) context.printJson({ ok: failed === 0, checks: rows })
    else show(context, rows, failed)
    return failed === 0 ? exitCodes.done : exitCodes.failed
  },
})

/** Runs all checks in parallel, each with a time limit. The findings keep the order of the table. */
async function examine(context: Context, config: Config, secrets: Secrets): Promise<FindingRow[]> {
  const { parts, io, redactor } = context
  const [runningNode, agentsFile] = await Promise.all([lookForNode(context, config, secrets), readAgents(config)])
  const running = runningNode.value
  // An older node has no diagnosis. Then this process runs the checks.
  const diagnosis = running && (await diagnosisOf(running.node, io.signal))
  const { silent } = runningNode
  const patient: Patient = { config, secrets, parts, running, silent, diagnosis, agents: agentsFile.value ?? [] }
  const here = [...localChecks, databaseCheck, ledgerCheck, ...networkChecks, ...chainChecks]
  // Files and ports of this machine say nothing about a node elsewhere.
  const checks = context.remote === undefined ? here : here.filter(({ id }) => elsewhere.has(id))
  const found = await Promise.all(checks.map((check) => findingsOf(check, patient, io.signal)))
  const rows: FindingRow[] = [{ id: 'node', title: 'Running node', ...runningNode.finding }]
  if (agentsFile.finding !== undefined) rows.push({ id: 'agents_file', title: 'agents.yaml', ...agentsFile.finding })
  for (const [index, { id, title }] of checks.entries()) {
    for (const finding of found[index] ?? []) rows.push({ id, title, ...finding })
  }
  const asked = new Set(checks.map(({ id }) => id))
  rows.push(...(diagnosis?.checks ?? []).filter(({ id }) => !asked.has(id)).map(rowOf))
  return rows.map((row) => ({ ...row, text: redactor.redact(row.text) }))
}

async function diagnosisOf(node: RemoteNode, stop: AbortSignal): Promise<Diagnosis | undefined> {
  try {
    return await node.diagnosis({ signal: AbortSignal.any([stop, AbortSignal.timeout(CHECK_MS_MAX)]) })
  } catch {
    return undefined
  }
}

/** Uses the running node's own findings if there are any. Otherwise runs the check here. */
async function findingsOf(check: Check, patient: Patient, stop: AbortSignal): Promise<Finding[]> {
  const said = patient.diagnosis?.checks.filter(({ id }) => id === check.id) ?? []
  if (said.length > 0) return said.map(rowOf)
  return findWithin(CHECK_MS_MAX, stop, (signal) => check.run(patient, signal))
}

function rowOf({ fix, ...row }: Diagnosis['checks'][number]): FindingRow {
  return { ...row, ...(fix !== undefined && { fix }) }
}

/** Checks that work for a node on another machine, by its answers. */
const elsewhere = new Set(['agents', 'bootstrap', 'reachability', 'rpc', 'clock', 'balance', 'facilitator'])

function pidText({ file: { pid } }: RunningNode): string {
  return pid === undefined ? '' : `pid ${pid}, `
}

async function lookForNode(context: Context, config: Config, secrets: Secrets) {
  try {
    const value = await findRunningNode(context, config, secrets)
    const finding = value === undefined ? skip('none on this data directory') : ok(`${pidText(value)}${value.url}`)
    return { value, finding, silent: undefined }
  } catch (error) {
    const silent = context.remote === undefined ? await silentNode(config.dataDir) : undefined
    return {
      value: undefined,
      finding: fail(reasonOf(error), 'read its log (stoa logs), then restart it: stoa stop, and stoa start'),
      silent,
    }
  }
}

/** What the process that holds the directory has written of itself. */
async function silentNode(dataDir: string): Promise<NodeFile | undefined> {
  const file = await readNodeFile(dataDir)
  return file !== undefined && lockHolder(dataDir) === file.pid ? file : undefined
}

async function readAgents(config: Config) {
  try {
    return { value: await readAgentsFile(dataFile(config.dataDir, 'agents')), finding: undefined }
  } catch (error) {
    return { value: undefined, finding: fail(reasonOf(error), 'correct the file; the node does not start until then') }
  }
}

function show(context: Context, rows: readonly FindingRow[], failed: number): void {
  const { green, yellow, red, dim, bold } = context.style.stdout
  const marks = { ok: green('✓'), warn: yellow('!'), fail: red('✗'), skip: dim('-') }
  const width = Math.max(...rows.map(({ title }) => title.length))
  for (const { state, title, text, fix } of rows) {
    context.print(
      `${marks[state]} ${title.padEnd(width)}  ${state === 'skip' ? dim(printableLine(text, 600)) : printableLine(text, 600)}`,
    )
    if (fix !== undefined) context.print(`  ${' '.repeat(width)}  ${dim('fix:')} ${printableLine(fix, 600)}`)
  }
  const warned = rows.filter(({ state }) => state === 'warn').length
  context.print()
  if (failed > 0)
    context.print(
      bold(red(`${failed} ${failed === 1 ? 'problem' : 'problems'} to fix${warned > 0 ? `, ${warned} to check` : ''}`)),
    )
  else context.print(bold(warned > 0 ? `no problems, ${warned} to check` : 'no problems found'))
}
