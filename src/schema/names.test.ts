import { expect, test } from 'vitest'
import { AgentName } from './agent.ts'
import { ImportAgent } from './import.ts'
import { CreateToken } from './token.ts'
import { workMessages } from './work.ts'
import { InviteWorker } from './worker.ts'

const join = { version: '1.0', id: 'x', secret: 'x', runs_max: 1 }
const imported = { peer: 'x', agent_id: 'x', price: '0.01' }
const named: [string, (name: string) => boolean][] = [
  ['an agent', (name) => AgentName.safeParse(name).success],
  ['an imported agent', (name) => ImportAgent.safeParse({ ...imported, name }).success],
  ['a worker', (name) => InviteWorker.safeParse({ name }).success],
  ['a token', (name) => CreateToken.safeParse({ name, scope: 'read' }).success],
  [
    'an agent of a worker',
    (name) => workMessages['work.join'].safeParse({ ...join, agents: [{ name, reads_history: false }] }).success,
  ],
]

test.each(named)(
  'the name of %s has no control characters, nothing unseen, and at most 80 characters',
  (_what, takes) => {
    for (const name of ['gpu-1', 'Größe 7', '画家', '👩‍💻', 'می‌خواهم', 'x'.repeat(80)]) {
      expect([name, takes(name)]).toEqual([name, true])
    }
    const refused = [
      '',
      ' ',
      'a\u0007',
      'a\nb',
      'a\u009bb',
      'a\u202eb',
      'a\u2066b',
      'a\u200bb',
      'a\ufeffb',
      'a\u2028b',
      '\u200d',
    ]
    for (const name of [...refused, '\ud800', 'x'.repeat(81)]) {
      expect([name, takes(name)]).toEqual([name, false])
    }
  },
)
