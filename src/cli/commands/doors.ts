import type { Doors, DoorTests } from '../../schema/doors.ts'
import { type Context, command, flag } from '../command.ts'
import { exitCodes } from '../exit-code.ts'
import { remoteNode } from '../node-access/remote-node.ts'
import { age, table } from '../text/market-text.ts'
import { printableLine } from '../text/terminal-text.ts'

const names: Record<Doors['doors'][number]['door'], string> = {
  libp2p: 'peer to peer',
  http: 'x402 HTTP',
  mcp: 'MCP',
  a2a: 'A2A',
}

export const doors = command({
  name: 'doors',
  summary: 'Show where others buy from this node, what was sold there, and the address of each agent',
  details:
    'With --test the node asks the addresses that it gives to clients: TLS, status 402, the price of the listing. It pays nothing and runs no agent.',
  examples: ['stoa doors', 'stoa doors --test', 'stoa doors --json | jq -r ".doors[] | select(.open) | .agents[].url"'],
  options: { test: flag('--test', 'ask the addresses now') },
  async run(context, { test, ...flags }) {
    const node = await remoteNode(context, flags)
    const { signal } = context.io
    const tests = test === true ? await node.testDoors({ signal }) : undefined
    const known = await node.doors({ signal })
    const shown = tests === undefined ? known : { ...known, tests }
    if (context.json) context.printJson(shown)
    else context.print(doorLines(shown, context))
    return tests?.tests.some(({ state }) => state === 'fail') ? exitCodes.failed : exitCodes.done
  },
})

function doorLines(known: Doors, context: Context): string[] {
  const { dim } = context.style.stdout
  const rows = known.doors.map(({ door, open, url, addresses, calls, earned, ...closed }) => [
    ...[names[door], open ? 'open' : 'closed', `${calls}`, `${earned} USDC`],
    open ? (url ?? addresses?.[0] ?? '') : closedText(closed),
  ])
  const agents = known.doors
    .filter(({ door }) => door === 'http' || door === 'a2a')
    .flatMap(({ door, agents }) => agents.map(({ agent_name, url }) => [names[door], agent_name, url]))
  return [
    // An address that is cut is none.
    ...table(['DOOR', 'STATE', 'CALLS', 'EARNED', 'WHERE'], rows, context, { wraps: true }),
    ...(agents.length === 0
      ? []
      : [
          '',
          ...table(
            ['DOOR', 'AGENT', 'ADDRESS'],
            agents.map(([...cells]) => cells.map((cell) => printableLine(cell, 200))),
            context,
            { wraps: true },
          ),
        ]),
    '',
    openAiLine(known),
    ...(known.tests === undefined
      ? known.doors.some(({ door, open }) => door === 'http' && open)
        ? ['', dim('not tested yet: stoa doors --test')]
        : []
      : ['', ...testLines(known.tests, context)]),
  ]
}

function closedText({ why = '', fix }: { why?: string | undefined; fix?: string | undefined }): string {
  return fix === undefined ? why : `${why}: ${fix}`
}

function openAiLine({ openai }: Doors): string {
  if (!openai.open) return `OpenAI door: closed. ${closedText(openai)}`
  const { url, spent_today: today, daily_budget: budget } = openai
  return `OpenAI door: ${printableLine(url ?? '')}, today ${today} of ${budget} USDC spent without a token`
}

function testLines({ at, tests }: DoorTests, context: Context): string[] {
  const { green, yellow, red, dim } = context.style.stdout
  const marks = { ok: green('✓'), warn: yellow('!'), fail: red('✗'), skip: dim('-') }
  // A fix that several addresses in a row need is told after the last of them.
  const said = tests.flatMap(({ state, url, from, text, fix }, place) => [
    `${marks[state]} ${printableLine(`${url}${from === 'peers' ? ' (from outside)' : ''}: ${text}`, 600)}`,
    ...(fix === undefined || fix === tests[place + 1]?.fix ? [] : [`  ${dim('fix:')} ${printableLine(fix, 600)}`]),
  ])
  if (tests.length === 0) return [dim('nothing to test: strangers buy nothing here')]
  const past = age(at, context.parts.clock.now())
  return [dim(past === 'now' ? 'tested now' : `tested ${past} ago`), ...said]
}
