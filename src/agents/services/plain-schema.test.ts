/** Schemas of strangers (T39). */
import { expect, test } from 'vitest'
import { INPUT_SCHEMA_LENGTH_MAX } from '../../schema/agent-service.ts'
import { plainSchema, SchemaError, storedSchema, wordsOnly } from './plain-schema.ts'

test('keywords whose check may take for ever are left out, and the others are kept', () => {
  expect(
    plainSchema({
      type: 'object',
      properties: { a: { type: 'string', pattern: '(a+)+$', format: 'uri', maxLength: 9 }, b: { uniqueItems: true } },
      patternProperties: { '(x+)+$': {} },
      required: ['a'],
      additionalProperties: false,
    }),
  ).toEqual({
    type: 'object',
    properties: { a: { type: 'string', format: 'uri', maxLength: 9 }, b: {} },
    required: ['a'],
    additionalProperties: false,
  })
})

test('the dialects of OpenAPI 3.0 and of draft 4 become those of today', () => {
  expect(
    plainSchema({ type: 'integer', minimum: 1, exclusiveMinimum: true, maximum: 9, nullable: true, example: 3 }),
  ).toEqual({ type: ['integer', 'null'], exclusiveMinimum: 1, maximum: 9, examples: [3] })
  expect(plainSchema({ type: 'array', items: [{ type: 'string' }], additionalItems: false })).toEqual({
    type: 'array',
    prefixItems: [{ type: 'string' }],
    items: { not: {} },
  })
  expect(plainSchema({ type: 'string', enum: ['a'], nullable: true })).toEqual({
    type: ['string', 'null'],
    enum: ['a', null],
  })
})

test('what only the service writes is not asked for', () => {
  const id = { type: 'integer', readOnly: true }
  expect(plainSchema({ properties: { id, name: {} }, required: ['id', 'name'] })).toEqual({
    properties: { name: {} },
    required: ['name'],
  })
})

test('references inside the document are followed, and a circle allows anything', () => {
  const root = {
    $defs: { 'a/b': { type: 'object', properties: { next: { $ref: '#/$defs/a~1b' } } }, me: { $ref: '#/$defs/me' } },
  }
  expect(plainSchema({ $ref: '#/$defs/a~1b' }, root)).toEqual({ type: 'object', properties: { next: {} } })
  expect(plainSchema({ $ref: '#/$defs/me' }, root)).toEqual({})
  expect(plainSchema({ properties: { self: { $ref: '#' } } })).toEqual({
    properties: { self: { properties: { self: {} } } },
  })
})

test.each([
  'file:///etc/passwd',
  './other.yaml',
  'https://evil.example/x#/a',
  '#/none',
  '#/__proto__',
  '#/toString',
  'x',
])('T12 a reference to %s is not followed', ($ref) => {
  expect(() => plainSchema({ properties: { a: { $ref } } }, {})).toThrow(SchemaError)
})

test('T7 a few lines of references to references stay small', () => {
  const $defs: Record<string, object> = { d0: { type: 'string' } }
  for (let i = 1; i <= 40; i++) {
    const one = { $ref: `#/$defs/d${i - 1}` }
    $defs[`d${i}`] = { type: 'object', properties: { a: one, b: one, c: one }, anyOf: [one, one] }
  }
  const stored = storedSchema({ $ref: '#/$defs/d40' }, { $defs })
  expect(JSON.stringify(stored).length).toBeLessThanOrEqual(INPUT_SCHEMA_LENGTH_MAX)
  expect(stored.type).toBe('object')
})

test('T7 a schema that is deeper or wider than any tool needs is cut', () => {
  let deep: object = { type: 'string' }
  for (let i = 0; i < 5_000; i++) deep = { type: 'object', properties: { a: deep } }
  expect(JSON.stringify(plainSchema(deep)).length).toBeLessThan(1_000)
  const properties = Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`p${i}`, { type: 'string' }]))
  expect(storedSchema({ type: 'object', properties })).toEqual({ type: 'object' })
})

test('T8 a property called __proto__ changes no object', () => {
  const schema = plainSchema(
    JSON.parse('{"properties":{"__proto__":{"type":"string"},"a":{}},"required":["__proto__"]}'),
  )
  expect(Object.keys(schema.properties as object)).toEqual(['a'])
  expect(schema.required).toEqual([])
  expect(Object.getPrototypeOf(schema.properties)).toBe(Object.prototype)
})

test('T10 words of others have no controls of a terminal or of the direction of text', () => {
  expect(wordsOnly('\u001b[31mred\u001b[0m \u202egnp\u0000\r\n\tx \u200b y', 80)).toBe('red gnp x y')
  expect(wordsOnly('\u001b]0;title\u0007after', 80)).not.toMatch(/\p{Cc}/u)
  expect(wordsOnly('x'.repeat(100), 10)).toBe(`${'x'.repeat(9)}…`)
})

test('T7 a level with more names than any tool needs allows anything, and a value that leads to itself is no example', () => {
  const wide = Object.fromEntries(Array.from({ length: 2_001 }, (_, at) => [`p${at}`, {}]))
  const circle: unknown[] = []
  circle.push(circle)
  const schema = { properties: { a: { properties: wide, additionalProperties: false }, b: { example: circle } } }
  expect(plainSchema(schema)).toEqual({ properties: { a: {}, b: {} } })
})
