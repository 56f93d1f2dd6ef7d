/**
 * Measures the time from process start until a node listens, and its memory at rest, beside a libp2p node with the same
 * modules. The node runs as published (bundled) and from a checkout, where Node reads each source file. The programs
 * start in turn, so that a busy minute of the machine affects all of them.
 *
 * One start before the first measurement creates keys and database, and fills Node's compile cache, which all programs
 * use. `bin/stoa.js` turns the cache on by itself.
 */
import { existsSync } from 'node:fs'
import { copyFile, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readFlags } from './flags.ts'
import { type Program, type Start, startOnce } from './start/program.ts'
import { median } from './statistics.ts'
import { aligned } from './table.ts'

const values = readFlags({
  json: { type: 'boolean', default: false },
  quick: { type: 'boolean', default: false },
  rounds: { type: 'string' },
})
const rounds = Number(values.rounds ?? (values.quick ? 3 : 7))
/** Memory takes seconds to measure, so only some rounds measure it. */
const restedRounds = values.quick ? 1 : 3
const settleMs = values.quick ? 1000 : 3000
/** Highest factors of the baseline. */
const sourceGoals = { ready: 1.5, rss: 1.5 }
const publishedGoals = { ready: 0.8, rss: 0.95 }

const fileOf = (path: string) => fileURLToPath(new URL(path, import.meta.url))
const stoa = (name: string, file: string, flags: readonly string[]): Program => ({
  name,
  file,
  args: (dataDir) => ['start', '--json', '--data-dir', dataDir, '--port', '0', '--api-port', '0', ...flags],
  ready: '"event":"ready"',
})
const bare = (name: string, flags: string[]): Program => ({
  name,
  file: fileOf('./start/bare-node.ts'),
  args: () => flags,
  ready: 'listening',
})
const directory = await mkdtemp(join(tmpdir(), 'stoa-start-'))
const built = existsSync(fileOf('../dist/node/main.js'))
// The command as the package has it: beside a build and no source.
const published = join(directory, 'package/bin/stoa.js')
await mkdir(dirname(published), { recursive: true })
await copyFile(fileOf('../bin/stoa.js'), published)
await copyFile(fileOf('../package.json'), join(directory, 'package/package.json'))
await symlink(fileOf('../dist'), join(directory, 'package/dist'))

/** Each program with its baseline. */
const pairs = [
  { ours: stoa('stoa start', fileOf('../bin/stoa.js'), []), floor: bare('bare libp2p', []), limits: sourceGoals },
  {
    ours: stoa('stoa start --no-mdns', fileOf('../bin/stoa.js'), ['--no-mdns']),
    floor: bare('bare libp2p, no mDNS', ['--no-mdns']),
    limits: sourceGoals,
  },
  ...(built
    ? [
        {
          ours: stoa('stoa start, as published', published, []),
          floor: bare('bare libp2p', []),
          limits: publishedGoals,
        },
      ]
    : []),
]
const programs = [...new Map(pairs.flatMap(({ ours, floor }) => [ours, floor]).map((one) => [one.name, one])).values()]

try {
  const starts = new Map<string, Start[]>(programs.map(({ name }) => [name, []]))
  for (let round = 0; round <= rounds; round++) {
    process.stderr.write(round === 0 ? 'first starts\n' : `round ${round} of ${rounds}\n`)
    for (const program of programs) {
      const rests = round > 0 && round <= restedRounds
      const start = await startOnce(program, { directory, settleMs: rests ? settleMs : 0 })
      if (round > 0) starts.get(program.name)!.push(start)
    }
  }
  report(starts)
} finally {
  await rm(directory, { recursive: true, force: true })
}

function report(starts: ReadonlyMap<string, readonly Start[]>): void {
  const figures = (name: string) => ({
    readyMs: median(starts.get(name)!.map(({ readyMs }) => readyMs)),
    rssMb: median(starts.get(name)!.flatMap(({ rssMb }) => rssMb ?? [])),
  })
  const rows = programs.map(({ name }) => ({ name, ...figures(name) }))
  const goals = pairs.flatMap(({ ours, floor, limits }) => {
    const [mine, its] = [figures(ours.name), figures(floor.name)]
    return [
      { name: `${ours.name}: start`, value: mine.readyMs / its.readyMs, limit: limits.ready },
      { name: `${ours.name}: memory at rest`, value: mine.rssMb / its.rssMb, limit: limits.rss },
    ].map((goal) => ({ ...goal, met: goal.value <= goal.limit }))
  })
  if (values.json) {
    process.stdout.write(`${JSON.stringify({ node: process.version, rounds, settleMs, rows, goals }, undefined, 2)}\n`)
    return
  }
  const table = rows.map(({ name, readyMs, rssMb }) => [name, `${Math.round(readyMs)} ms`, `${Math.round(rssMb)} MB`])
  const lines = goals.map(
    ({ name, value, limit, met }) =>
      `${met ? 'met   ' : 'missed'}  ${name}: ${value.toFixed(2)} × (goal: at most ${limit})`,
  )
  const setting = `node: ${process.version}, rounds: ${rounds}, medians; memory after ${settleMs} ms at rest`
  process.stdout.write(`${[setting, '', ...aligned([['', 'ready', 'RSS'], ...table]), '', ...lines].join('\n')}\n`)
}
