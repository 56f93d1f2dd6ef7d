import * as z from 'zod'
import { INVITE_HOURS, INVITE_HOURS_MAX, WorkerName } from '../../schema/worker.ts'
import { command, option } from '../command.ts'
import { remoteNode } from '../node-access/remote-node.ts'
import { age, printList } from '../text/market-text.ts'
import { printableLine } from '../text/terminal-text.ts'

const WORKER = {
  name: 'id',
  description: 'id of the worker from `stoa worker list`',
  missing: 'the id of the worker is missing: `stoa worker list` lists the ids',
}
const SECONDS = { m: 60, h: 3600, d: 86_400 } as const

/** A time such as 90m, 24h or 7d, in seconds. */
const InviteTime = z.string().transform((text, context): number => {
  const [, count, unit = 'h'] = /^([0-9]{1,5})(m|h|d)$/.exec(text.trim()) ?? []
  const seconds = Number(count) * SECONDS[unit as keyof typeof SECONDS]
  if (seconds >= 60 && seconds <= INVITE_HOURS_MAX * 3600) return seconds
  context.addIssue({ code: 'custom', message: 'a time from 1m to 30d, such as 90m, 24h or 7d' })
  return z.NEVER
})

export const workerInvite = command({
  name: 'worker invite',
  summary: 'Make a join token, with which another machine runs agents of this node',
  details:
    'An agent of agents.yaml with `worker: true` runs on such machines. The first machine that uses the token owns it, until you revoke it. The token is shown only once.',
  examples: ['stoa worker invite --name gpu-1', 'stoa worker invite --expires 1h --json'],
  options: {
    name: option('--name <text>', 'which machine the worker is', WorkerName),
    expires: option(
      '--expires <time>',
      `how long the token waits for its first use, such as 1h or 7d (default: ${INVITE_HOURS}h)`,
      InviteTime,
    ),
  },
  async run(context, { name, expires, ...flags }) {
    const node = await remoteNode(context, flags)
    const wanted = { ...(name && { name }), ...(expires && { expires_in_seconds: expires }) }
    const invited = await node.inviteWorker(wanted, { signal: context.io.signal })
    if (context.json) context.printJson(invited)
    else {
      const how = 'Run stoa worker on the other machine with STOA_JOIN_TOKEN set to this'
      context.tell(printableLine(`invited ${invited.name} (${invited.id}), until ${invited.expires_at}. ${how}:`))
      context.print(invited.token)
    }
  },
})

export const workerList = command({
  name: 'worker list',
  summary: 'List the machines that run agents of this node, newest first',
  examples: ['stoa worker list', 'stoa worker list --json'],
  async run(context, flags) {
    const node = await remoteNode(context, flags)
    const workers = await node.workers({ signal: context.io.signal })
    const now = context.parts.clock.now()
    printList(context, workers, {
      none: 'no workers: invite one with `stoa worker invite`',
      headings: ['WORKER', 'STATE', 'RUNS', 'PROCESS', 'SINCE', 'SEEN', 'NAME', 'AGENTS'],
      cells: (one) => [
        ...[one.id, one.state, one.state === 'connected' ? `${one.running} of ${one.runs_max}` : ''],
        // As `stoa status` names it.
        (one.processes ?? []).map((id) => id.slice(0, 8)).join(', '),
        ...[one.connected_at, one.seen_at].map((at) => (at === undefined ? '' : age(at, now))),
        ...[printableLine(one.name, 40), printableLine(one.agents.join(', '))],
      ],
    })
  },
})

export const workerRevoke = command({
  name: 'worker revoke',
  summary: 'Cut a worker off for good, or take an invitation back',
  examples: ['stoa worker revoke 4fJm0q2pYb1x'],
  argument: WORKER,
  async run(context, flags, id) {
    const node = await remoteNode(context, flags)
    const revoked = await node.revokeWorker(id, { signal: context.io.signal })
    context.printResult(revoked, printableLine(`revoked ${revoked.name} (${revoked.id})`))
  },
})
