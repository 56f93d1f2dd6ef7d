import { expect, test } from 'vitest'
import { createSiblings } from './siblings.ts'

const SELLER = '12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5'
const at = (port: number, host = '9.9.9.9') => `/ip4/${host}/tcp/${port}/p2p/${SELLER}`
type Said = { agents?: string[]; isDraining?: boolean; definitions?: Record<string, string>; upMs?: number }
const process = (id: string, addresses: string[], { agents = ['a'], isDraining = false, ...rest }: Said = {}) => {
  const { definitions, upMs = 60_000 } = rest
  return { id, place: `at ${id}`, upMs, report: { addresses, agents, isDraining, definitions } }
}

function setup() {
  const own = { addresses: [at(1), at(1, '127.0.0.1')], changed: () => {} }
  const host = {
    addresses: () => own.addresses,
    onAddressesChange(listener: () => void) {
      own.changed = listener
      return () => {
        own.changed = () => {}
      }
    },
  }
  const siblings = createSiblings('me', host)
  const changes: string[][] = []
  const leave = siblings.onAddressesChange(() => void changes.push(siblings.addresses('a')))
  return { own, siblings, changes, leave }
}

test('it knows which other processes sell an agent and do not stop', () => {
  const { siblings } = setup()
  siblings.note([
    process('me', []),
    process('one', []),
    process('two', [], { agents: ['b'] }),
    process('three', [], { isDraining: true }),
  ])
  expect([siblings.sellersOf('a'), siblings.sellersOf('b'), siblings.sellersOf('c')]).toEqual([['one'], ['two'], []])
})

test('a node alone lists its own addresses', () => {
  const { siblings } = setup()
  expect(siblings.addresses('a')).toEqual([at(1), at(1, '127.0.0.1')])
  expect([...siblings.agents()]).toEqual([])
})

test('all processes come to the same list, which names each of them first', () => {
  const { siblings, own } = setup()
  const other = createSiblings('other', { addresses: () => [at(2), at(3)], onAddressesChange: () => () => {} })
  const alive = [
    process('other', [at(2), at(3)]),
    process('me', own.addresses),
    { id: 'new', place: 'at new', upMs: 0, report: undefined },
  ]
  siblings.note(alive)
  other.note(alive)
  expect(siblings.addresses('a')).toEqual([at(2), at(1), at(3), at(1, '127.0.0.1')])
  expect(other.addresses('a')).toEqual(siblings.addresses('a'))
})

test('a change is told when an address comes or goes, of this process or another, and not otherwise', () => {
  const { siblings, own, changes, leave } = setup()
  const both = [process('other', [at(2)]), process('me', [])]
  siblings.note(both)
  siblings.note([process('other', [at(2)]), process('me', [], { agents: [] })])
  own.addresses = [at(7)]
  own.changed()
  siblings.note([process('me', [])])
  expect(changes).toEqual([[at(2), at(1), at(1, '127.0.0.1')], [at(2), at(7)], [at(7)]])
  leave()
  siblings.note(both)
  expect(changes).toHaveLength(3)
})

test('a listing names only the processes that sell the agent', () => {
  const { siblings } = setup()
  siblings.note([process('other', [at(2)], { agents: ['b'] }), process('new', [at(3)]), process('me', [])])
  expect(siblings.addresses('a')).toEqual([at(3), at(1), at(1, '127.0.0.1')])
  expect(siblings.addresses('b')).toEqual([at(2), at(1), at(1, '127.0.0.1')])
})

test('a process that stops is left out, with its agents', () => {
  const { siblings } = setup()
  const others = [process('x', [at(2)], { agents: ['a'] }), process('y', [at(3)], { agents: ['b'], isDraining: true })]
  siblings.note([...others, process('me', [], { agents: ['c'] })])
  expect(siblings.addresses('a')).toEqual([at(2), at(1), at(1, '127.0.0.1')])
  expect([...siblings.agents()]).toEqual(['a'])
})

test('the processes are named that have other settings for an agent, or do not have it', () => {
  const { siblings } = setup()
  const having = (id: string, definitions: Record<string, string> | undefined, upMs?: number) =>
    process(id, [], { ...(definitions && { definitions }), ...(upMs !== undefined && { upMs }) })
  expect(siblings.unlike('Echo')).toEqual([])
  siblings.note([having('me', { Echo: 'x', More: 'm' }), having('same', { Echo: 'x' }), having('other', { Echo: 'y' })])
  expect(siblings.unlike('Echo')).toEqual(['at other'])
  expect(siblings.unlike('More')).toEqual(['at same', 'at other'])
  // One that starts tells its agents one by one, and one of another version may tell none.
  siblings.note([having('me', { Echo: 'x' }), having('new', {}, 1_000), having('old', undefined)])
  expect(siblings.unlike('Echo')).toEqual([])
  // What was removed here is sold there on.
  siblings.note([having('me', {}), having('other', { Echo: 'y' })])
  expect(siblings.unlike('Echo')).toEqual(['at other'])
})

test('ADR-38: it counts the runs that workers of other processes can take, and those that it sends there', () => {
  const { siblings } = setup()
  const worker = { agents: ['a', 'b'], running: 1, runsMax: 3 }
  const loaded = (id: string, workers: object[], { silentMs = 0, isDraining = false } = {}) =>
    ({ id, silentMs, report: { isDraining, workers } }) as Parameters<typeof siblings.noteLoads>[0][number]
  expect(siblings.takesRun('a')).toBe(false)
  const now = [loaded('one', [worker]), loaded('two', [{ ...worker, agents: ['c'], failing: ['c'] }])]
  siblings.noteLoads(now)
  expect(['a', 'b', 'a', 'c'].map((agent) => siblings.takesRun(agent))).toEqual([true, true, false, false])
  siblings.noteLoads(now)
  expect(siblings.takesRun('a')).toBe(true)
  // This process itself, one that stops, and one that was not heard of.
  siblings.noteLoads([
    loaded('me', [worker]),
    loaded('one', [worker], { isDraining: true }),
    loaded('two', [worker], { silentMs: 20_000 }),
    { id: 'three', silentMs: 0, report: undefined },
  ])
  expect(siblings.takesRun('a')).toBe(false)
})
