/**
 * Measures how late the event loops of a market's nodes are, minute by minute, and why: `node bench/event-loop.ts
 * --minutes 25`.
 *
 * Own work and waits for the disk are ours. Waits for a core come from a busy machine. Linux only.
 */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Load } from '../test/chaos/load.ts'
import { Random } from '../test/chaos/random.ts'
import { startWorld } from '../test/chaos/world.ts'
import { readFlags } from './flags.ts'

const minutes = Number(readFlags({ minutes: { type: 'string', default: '25' } }).minutes)
const PERIOD_MS = 60_000
const row = (...cells: (string | number)[]) =>
  process.stdout.write(`${cells.map((cell) => String(cell).padStart(9)).join(' ')}\n`)

const world = await startWorld()
try {
  const load = new Load(world, new Random(1), 'loop')
  await load.start()
  for (const { node } of world.members()) await node.loopReport()
  process.stdout.write('p99 of a minute, in ms\n')
  row('minute', 'node', 'wishes', 'db MB', 'late', 'own work', 'disk', 'crowd', 'worst', 'its work', 'its disk')
  for (let minute = 1; minute <= minutes; minute++) {
    await delay(PERIOD_MS)
    for (const { node, dataDir } of world.members()) {
      const report = await node.loopReport()
      if (report === undefined) continue
      const { p99, worst } = report
      const size = (statSync(join(dataDir, 'stoa.db')).size / 1e6).toFixed(1)
      const worstOf = [worst.late, worst.work, worst.disk].map(Math.round)
      row(minute, node.name, load.wishes.length, size, p99.late, p99.work, p99.disk, p99.crowd, ...worstOf)
    }
  }
} finally {
  await world.stop(false)
  process.exit()
}
