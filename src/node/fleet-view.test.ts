import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import type { ProcessReport } from '../store/postgres/processes.ts'
import { fleetView } from './fleet-view.ts'

const plain = { version: '1', addresses: [], agents: ['echo'], running: 0, isDraining: false, aheadMs: 0 }

const states: [string, { report: ProcessReport | undefined; silentMs?: number }][] = [
  ['starting', { report: undefined }],
  ['selling', { report: plain }],
  ['ready', { report: { ...plain, agents: [] } }],
  ['draining', { report: { ...plain, agents: [], isDraining: true } }],
  ['silent', { report: { ...plain, agents: [] }, silentMs: 11_000 }],
]
test.each(states)('a process is shown as %s', (state, { report, silentMs = 0 }) => {
  const alive = [{ id: 'a', place: 'here, process 1', upMs: 1, leaseMs: 20_000, silentMs, report }]
  const options = { clock: new HandClock(), process: 'a', server: undefined }
  expect(fleetView({ alive, ended: [], roles: [] }, [], options).processes).toMatchObject([{ state }])
})
