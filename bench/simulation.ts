/**
 * A market of many nodes in one process: whether replicas agree in the end, and what each node bears for it, as nodes and
 * listings grow. The same seed gives the same run.
 */
import { parseArgs } from 'node:util'
import { type SimulationReport, simulate } from './simulation/simulate.ts'
import { aligned } from './table.ts'

const { values } = parseArgs({
  options: {
    nodes: { type: 'string', default: '1000' },
    listings: { type: 'string', default: '1000000' },
    seed: { type: 'string', default: '1' },
    json: { type: 'boolean', default: false },
  },
})
const a = performance.now()
const r = simulate({ seed: Number(values.seed), nodes: Number(values.nodes), listings: Number(values.listings) })
console.log(r, (performance.now() - a) / 1000, process.memoryUsage().rss / 1e6)
