/** Tasks of buyers as arguments (T39). */
import { expect, test } from 'vitest'
import { inputReader } from './task-input.ts'

const schema = {
  type: 'object',
  properties: { city: { type: 'string', minLength: 1 }, days: { type: 'integer', minimum: 1 } },
  required: ['city'],
  additionalProperties: false,
}
const read = inputReader(schema)

test('a task that fits is its arguments', async () => {
  expect(await read('{"city":"Paris","days":2}')).toEqual({ city: 'Paris', days: 2 })
})

test.each([
  ['what is the weather?', /not a JSON object/],
  ['["Paris"]', /not a JSON object/],
  ['null', /not a JSON object/],
  ['{}', /it must have required property 'city'/],
  ['{"city":1}', /\/city must be string/],
  ['{"city":"Paris","days":0}', /\/days must be >= 1/],
  ['{"city":"Paris","more":1}', /additional properties \(more\)/],
  ['{"city":"Paris","constructor":{"prototype":{}}}', /__proto__ or constructor/],
  ['{"city":"Paris","__proto__":{"a":1}}', /__proto__ or constructor/],
  ['{"city":{"a":[{"__proto__":1}]}}', /__proto__ or constructor/],
])('the task %s is refused in words for its buyer', async (task, message) => {
  await expect(read(task)).rejects.toMatchObject({ code: 'AGENT_FAILED', message: expect.stringMatching(message) })
  expect(({} as Record<string, unknown>).a).toBeUndefined()
})

test('without a schema any object is a task, within the limits', async () => {
  const any = inputReader(undefined)
  expect(await any('{"a":[1]}')).toEqual({ a: [1] })
  await expect(any(`{"a":${'['.repeat(50)}${']'.repeat(50)}}`)).rejects.toThrow(/nested deeper/)
  await expect(any(`{"a":${'['.repeat(200_000)}${']'.repeat(200_000)}}`)).rejects.toThrow(/nested deeper/)
  await expect(any(JSON.stringify({ a: Array.from({ length: 30_000 }, () => 1) }))).rejects.toThrow(/more than/)
})

test('T8 an inherited name is no argument', async () => {
  const own = inputReader({
    type: 'object',
    properties: { constructor: { type: 'string' }, toString: { type: 'string' } },
  })
  expect(await own('{}')).toEqual({})
  const needed = inputReader({ type: 'object', required: ['toString'] })
  await expect(needed('{}')).rejects.toThrow(/required property/)
})

test('T7 a pattern of the service that would never end is not tried', async () => {
  const slow = inputReader({ type: 'object', properties: { a: { type: 'string', pattern: '^(a+)+$' } } })
  expect(await slow(JSON.stringify({ a: `${'a'.repeat(60)}!` }))).toBeDefined()
})

const ways = (made: (at: number) => object) => ({ anyOf: [...Array.from({ length: 190 }, (_, at) => made(at)), {}] })
const many = <T>(made: (at: number) => T) => Array.from({ length: 19_000 }, (_, at) => made(at))

test.each<[string, object, unknown]>([
  ['ways for each of many values', { items: ways((at) => ({ const: at })) }, many(() => 'x')],
  [
    'ways of ways',
    { items: ways((at) => ({ anyOf: [{ const: at }, { const: -at }] })) },
    many(() => 'x').slice(0, 4_000),
  ],
  ['measures of a long text', ways((at) => ({ maxLength: at })), 'x'.repeat(1_000_000)],
  ['counts of many fields', ways((at) => ({ maxProperties: at })), Object.fromEntries(many((at) => [at, at]))],
  ['long lists', { items: { anyOf: [{ enum: many((at) => at).slice(0, 190) }, {}] } }, many(() => 'x')],
])('T32 %s are not checked: the task is refused at once', async (_, of, value) => {
  const reader = inputReader({ type: 'object', properties: { a: of } })
  await expect(reader(JSON.stringify({ a: value }))).rejects.toThrow(/more than can be checked at once/)
})

test('large tasks that are checked quickly pass', async () => {
  const row = { type: 'object', properties: { a: { enum: ['x', 'y'] }, b: { type: 'number' } }, required: ['a'] }
  const rows = { type: 'object', properties: { rows: { type: 'array', items: row }, text: { minLength: 1 } } }
  const task = { rows: many((at) => ({ a: 'x', b: at })).slice(0, 6_000), text: 'x'.repeat(5_000_000) }
  expect(await inputReader(rows)(JSON.stringify(task))).toEqual(task)
})
