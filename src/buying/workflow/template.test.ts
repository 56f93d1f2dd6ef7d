import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { fillTemplate, parseTemplate, stepsIn, TemplateError } from './template.ts'

const outputs: Record<string, string> = { a: 'A', 'b-2': 'B' }
const fill = (text: string, bytesMax = 1_000, values = { input: 'IN', outputOf: (id: string) => outputs[id] ?? '' }) =>
  fillTemplate(parseTemplate(text), values, bytesMax)

test.each([
  ['', ''],
  ['plain', 'plain'],
  ['{{input}}', 'IN'],
  ['{{ input }}', 'IN'],
  ['<{{steps.a.output}}|{{ steps.b-2.output }}>', '<A|B>'],
  ['{{input}}{{input}}', 'ININ'],
  [String.raw`\{{input}} and {{input}}`, '{{input}} and IN'],
  ['} }} { {x}', '} }} { {x}'],
  [String.raw`\ \\ \{`, String.raw`\ \\ \{`],
])('D20: %j becomes %j', (template, text) => {
  expect(fill(template)).toBe(text)
})

test.each([
  ['{{', '{{ without its }}'],
  ['a {{input} b', '{{ without its }}'],
  ['{{ {{input}} }}', '{{ without its }}'],
  ['{{}}', '{{…}} around ""'],
  ['{{Input}}', '{{…}} around "Input"'],
  ['{{steps.a}}', 'around "steps.a"'],
  ['{{steps..output}}', 'around "steps..output"'],
  ['{{steps.a.output.x}}', 'around'],
  ['{{steps.a b.output}}', 'around'],
  ['{{process.env.HOME}}', 'around'],
  ['{{constructor.constructor("x")()}}', 'around'],
  [`{{${'x'.repeat(5_000)}}}`, 'around "xxx'],
])('T8: refuses %.40j with the fix', (template, message) => {
  const parse = () => parseTemplate(template)
  expect(parse).toThrow(TemplateError)
  expect(parse).toThrow(message)
  expect(parse).toThrow(/\\\{\{ for the text/)
})

test('tells which outputs it needs, each once', () => {
  expect(stepsIn(parseTemplate('{{steps.b.output}} {{input}} {{steps.a.output}} {{steps.b.output}}'))).toEqual([
    'b',
    'a',
  ])
  expect(stepsIn(parseTemplate('{{steps.__proto__.output}}'))).toEqual(['__proto__'])
})

describe('T10: what is put in is text', () => {
  test('and never read as a template again', () => {
    const values = { input: '{{steps.a.output}}', outputOf: () => '{{input}} {{steps.b.output}} {{' }
    expect(fill('{{input}} {{steps.a.output}}', 1_000, values)).toBe(
      '{{steps.a.output}} {{input}} {{steps.b.output}} {{',
    )
  })

  test('whatever it holds, wherever it stands', () => {
    const text = fc.string({ unit: 'binary', maxLength: 50 }).map((text) => text.toWellFormed())
    const part = fc.oneof(
      text.map((literal) => ({ literal })),
      fc.constant({ hole: 'input' as const }),
      fc.constantFrom('a', 'b').map((step) => ({ step })),
    )
    fc.assert(
      fc.property(fc.array(part, { maxLength: 20 }), text, text, text, (parts, input, a, b) => {
        const written = parts.map((one) => {
          if ('literal' in one) return one.literal.replaceAll('{{', '\\{{')
          return 'hole' in one ? '{{input}}' : `{{steps.${one.step}.output}}`
        })
        // Two literals, or a literal and a hole, may make braces of their own where they meet.
        const template = written.join(' ')
        const meant = parts.map((one) => {
          if ('literal' in one) return one.literal
          return 'hole' in one ? input : { a, b }[one.step]!
        })
        fc.pre(!template.includes('\\\\{{') && !/\{\\?\{\{/.test(template))
        expect(fill(template, 1_000_000, { input, outputOf: (id) => (id === 'a' ? a : b) })).toBe(meant.join(' '))
      }),
      { numRuns: 500 },
    )
  })
})

describe('T19: what it grows to is bounded', () => {
  test('to the byte', () => {
    const values = { input: '€', outputOf: () => '' }
    expect(fill('x{{input}}', 4, values)).toBe('x€')
    expect(() => fill('x{{input}}', 3, values)).toThrow(expect.objectContaining({ code: 'INPUT_TOO_LARGE' }))
  })

  test('before anything that large is built, also of many holes', () => {
    const filled = (holes: number) => () => {
      const values = { input: 'x'.repeat(6_000_000), outputOf: () => '' }
      expect(() => fill('{{input}}'.repeat(holes), 6_000_000, values)).toThrow(/longer than 6000000 bytes/)
      expect(fill('{{steps.a.output}}'.repeat(holes / 2), 6_000_000, values)).toBe('')
    }
    expect(bestMs(filled(28_000)) / bestMs(filled(2_800))).toBeLessThan(MORE_THAN_LINEAR)
  })

  test.each(['{{', '{{a', '}}{{', '\\{{', '{{input'])('and so is the time to read one: %s', (text) => {
    const read = (times: number) => () => {
      try {
        parseTemplate(text.repeat(times))
      } catch (error) {
        expect(error).toBeInstanceOf(TemplateError)
      }
    }
    expect(bestMs(read(50_000)) / bestMs(read(5_000))).toBeLessThan(MORE_THAN_LINEAR)
  })
})

/** Ten times the text takes ten times as long where the work is linear, and a hundred times where it is quadratic. */
const MORE_THAN_LINEAR = 40

function bestMs(run: () => void): number {
  const times = Array.from({ length: 5 }, () => {
    const from = performance.now()
    run()
    return performance.now() - from
  })
  return Math.max(Math.min(...times), 0.05)
}
