import { expect, test } from 'vitest'
import { readDefinition } from './agent-config.ts'

const given = { name: 'Echo', description: 'Says it again.', model: 'builtin/echo' }

test('flags make a free agent, a paid one, and one whose calls cost what they use', () => {
  expect(readDefinition({ ...given, price: 0n })).toMatchObject({ name: 'Echo', price: 0n })
  expect(readDefinition({ ...given, price: 10_000n })).toMatchObject({ price: 10_000n })
  const pricing = { per_call: 100n, max: 1_000n }
  expect(readDefinition({ ...given, price: undefined, pricing })).toMatchObject({ pricing })
  expect(() => readDefinition({ ...given, price: undefined })).toThrow('--price is missing')
})
