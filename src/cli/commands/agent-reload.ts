import * as z from 'zod'
import type { Config } from '../../config/config.ts'
import type { Secrets } from '../../config/secrets.ts'
import { CodedError, reasonOf } from '../../lib/errors.ts'
import type { OwnAgent, ReloadedAgents } from '../../schema/own-agent.ts'
import { type Context, command } from '../command.ts'
import { exitCodeOf, exitCodes } from '../exit-code.ts'
import { remoteNode } from '../node-access/remote-node.ts'
import { findRunningNode, type RunningNode } from '../node-access/running-node.ts'
import { differsText } from '../text/differs-text.ts'
import { agentPriceText, printableLine } from '../text/terminal-text.ts'

export const agentReload = command({
  name: 'agent reload',
  summary: 'Let the running node read agents.yaml again',
  details:
    'The node adds, changes and removes the agents whose entries changed. The others sell on. Running tasks finish with the old settings. A file with a mistake changes nothing. Keys are those that the node had at its start. Each process of a seller reads its own agents.yaml: run the command for each.',
  examples: ['stoa agent reload', 'stoa agent reload --json'],
  async run(context, flags) {
    const node = await remoteNode(context, flags)
    const reloaded = await node.reloadAgents({ signal: context.io.signal })
    if (context.json) context.printJson(await jsonOf(reloaded))
    else sayReloaded(context, reloaded, context.print)
  },
})

/** What became of a change of agents.yaml at the node that runs on the data directory. */
type Told =
  | { state: 'no node' }
  | { state: 'taken'; reloaded: ReloadedAgents }
  /** The node runs, and nobody can tell it. */
  | { state: 'unreached'; reason: string }
  | { state: 'refused'; error: unknown }

/** Lets the node that runs on the data directory, if any, read agents.yaml again. */
export async function tellNode(context: Context, config: Config, secrets: Secrets): Promise<Told> {
  let running: RunningNode | undefined
  try {
    running = await findRunningNode(context, config, secrets)
  } catch (error) {
    context.io.signal.throwIfAborted()
    return { state: 'unreached', reason: reasonOf(error) }
  }
  if (running === undefined) return { state: 'no node' }
  try {
    return { state: 'taken', reloaded: await running.node.reloadAgents({ signal: context.io.signal }) }
  } catch (error) {
    context.io.signal.throwIfAborted()
    // A node of an earlier version does not know the operation.
    const isOlder = error instanceof CodedError && (error.code === 'NOT_FOUND' || error.code === 'METHOD_NOT_ALLOWED')
    return isOlder ? { state: 'unreached', reason: 'its version cannot reload' } : { state: 'refused', error }
  }
}

/** The fields of a JSON answer. */
export async function toldFields(told: Told): Promise<object> {
  return {
    restart_needed: told.state === 'unreached' || told.state === 'refused',
    ...(told.state === 'taken' && { reloaded: await jsonOf(told.reloaded) }),
    ...(told.state === 'unreached' && { problem: told.reason }),
    ...(told.state === 'refused' && { problem: reasonOf(told.error) }),
  }
}

/** A start of a node loads this file, and must not load what answers of the API look like. */
async function jsonOf(reloaded: ReloadedAgents): Promise<unknown> {
  const { ReloadedAgents: schema } = await import('../../schema/own-agent.ts')
  return z.encode(schema, reloaded)
}

/** The file is written in any case. A node that refuses to follow it is a failure all the same. */
export function toldExitCode(told: Told): number {
  return told.state === 'refused' ? exitCodeOf(told.error) : exitCodes.done
}

/** Says when a change of agents.yaml holds. */
export function sayTold(context: Context, told: Told): void {
  const warn = (text: string) => context.tell(context.style.stderr.yellow(text))
  if (told.state === 'no node')
    context.tell('no node runs on this data directory: the change starts with the node (stoa start)')
  else if (told.state === 'taken') sayReloaded(context, told.reloaded, context.tell)
  else if (told.state === 'unreached') {
    warn(`${printableLine(told.reason, 400)}: the running node sells as before. Restart it to apply the change`)
  } else {
    const reason = reasonOf(told.error)
      .split('\n')
      .map((line) => printableLine(line, 400))
      .join('\n')
    warn(
      `the running node did not take the change, and sells as before: ${reason}\nCorrect agents.yaml, then run stoa agent reload`,
    )
  }
}

function sayReloaded(context: Context, reloaded: ReloadedAgents, say: (line: string) => void): void {
  const { added, changed, removed, unchanged, kept } = reloaded
  for (const agent of added) say(`${printableLine(agent.name)} ${placeText(agent)}`)
  for (const agent of changed) say(`${printableLine(agent.name)} was changed: it ${placeText(agent)}`)
  for (const { name } of removed) say(`${printableLine(name)} is off the market`)
  if (added.length + changed.length + removed.length === 0)
    say(
      `nothing changed: ${unchanged === 1 ? 'the agent of the file is as it was' : `${unchanged} agents of the file are as they were`}`,
    )
  const { stderr } = context.style
  // Where it is not on the market, its line has said why.
  for (const { name, listed, notice } of [...added, ...changed]) {
    if (listed && notice !== undefined) context.tell(stderr.yellow(printableLine(`${name}: ${notice}`, 400)))
  }
  for (const name of kept)
    context.tell(
      stderr.yellow(
        `${printableLine(name)} stays as it is: the flags or the program that started the node describe it`,
      ),
    )
  for (const { name, differs_at: places } of [...added, ...changed, ...removed]) {
    const differs = differsText(name, places)
    if (differs !== undefined) context.tell(stderr.yellow(differs))
  }
}

function placeText(agent: OwnAgent): string {
  if (agent.listed) return `is on the market for ${agentPriceText(agent)}: ${agent.id}`
  if (agent.paused) return 'is paused'
  const why = agent.notice === undefined ? '' : `: ${printableLine(agent.notice, 300)}`
  return agent.sold_elsewhere ? 'is on sale elsewhere' : `is not on the market${why}`
}
