import fc from 'fast-check'
import { expect, test } from 'vitest'
import { AgentDefinition } from '../schema/agent.ts'
import { parseAgentsDocument } from './agents-document.ts'

const PATH = 'agents.yaml'

function read(text: string) {
  return parseAgentsDocument(text, PATH).agents
}

function refusal(text: string): string {
  try {
    read(text)
  } catch (error) {
    expect((error as Error).name).toBe('ConfigError')
    return (error as Error).message
  }
  throw new Error('was accepted')
}

function withPrice(price: string): string {
  return `agents:\n  - name: a\n    description: d\n    price: ${price}\n`
}

function agent(fields: Partial<Record<keyof AgentDefinition, unknown>> = {}): AgentDefinition {
  return AgentDefinition.parse({ name: 'a', description: 'd', price: 0.05, ...fields })
}

test('an agent has every field of its entry (D11)', () => {
  const text = `
agents:
  - name: Übersetzer
    description: |
      Translates.
      Politely.
    price: 0.05
    model: openai/gpt-5.4-mini
    tags: [text, 2024, true]
    image: https://pictures.example/a.png
    timeout_seconds: 30
    output_bytes_max: 1024
    api_key_env: MY_OPENAI_KEY
  - name: 2048
    description: plays
    price: 0
    command:
      - python3
      - agent.py
    model:
`
  expect(read(text)).toEqual([
    {
      name: 'Übersetzer',
      description: 'Translates.\nPolitely.',
      price: 50000n,
      model: 'openai/gpt-5.4-mini',
      tags: ['text', '2024', 'true'],
      image: 'https://pictures.example/a.png',
      timeout_seconds: 30,
      output_bytes_max: 1024,
      api_key_env: 'MY_OPENAI_KEY',
    },
    { name: '2048', description: 'plays', price: 0n, command: ['python3', 'agent.py'] },
  ])
})

test.each(['', '\n', '# nothing yet\n', 'agents:\n', 'agents: []\n', 'agents: ~\n', '---\n'])(
  '%j has no agents',
  (text) => {
    expect(read(text)).toEqual([])
  },
)

test.each([
  ['1.001', 1001000n],
  ['0.0157', 15700n],
  ['0.000249', 249n],
  ['0.000001', 1n],
  ['1e-6', 1n],
  ['1.5e-3', 1500n],
  ['0.10', 100000n],
  ['"0.10"', 100000n],
  ["'1e-6'", 1n],
  ['1000000', 1_000_000_000_000n],
  ['0', 0n],
  ['0.1000000', 100000n],
])('price %s is exact (D7, T18)', (price, atomic) => {
  expect(read(withPrice(price))[0]?.price).toBe(atomic)
})

test.each([
  '1e-7',
  '"1e-7"',
  '0.0000001',
  '-1',
  '.inf',
  '.nan',
  '1000000.000001',
  '1e400',
  '0x10',
  '"1 USDC"',
  '[1]',
  '{a: 1}',
  '1_000',
])('price %s is refused with its line and what is expected (D7, T18)', (price) => {
  expect(refusal(withPrice(price))).toMatch(/^agents\.yaml:4: agents\[0\]: price: .*expected USDC from 0 to 1000000/)
})

test('an unknown key is an error that names the file, the line and the likely key (D11)', () => {
  const text = 'agents:\n  - name: a\n    price: 1\n    desciption: d\n'
  expect(refusal(text)).toBe('agents.yaml:4: agents[0]: "desciption" is not known: did you mean description?')
  expect(refusal('agent:\n  - name: a\n')).toBe('agents.yaml:1: "agent" is not known: expected only "agents:"')
})

test('a key written into the file is refused and not repeated (D11, T21)', () => {
  const pasted = 'agents:\n  - {name: a, description: d, price: 1, api_key_env: sk-live-123}\n'
  expect(refusal(pasted)).toContain('api_key_env: the value is not valid: expected the NAME of an environment variable')
  const field = 'agents:\n  - name: a\n    api_key: sk-live-123\n'
  expect(refusal(field)).toContain('agents.yaml:3: agents[0]: "api_key" is not known: this file never holds keys')
  for (const text of [pasted, field]) expect(refusal(text)).not.toContain('sk-live')
})

test.each(['http://a.example/a.png', 'data:image/png;base64,aa', 'https://me:pw@a.example/a.png', 'a.png'])(
  'the picture of an agent is an https URL without credentials, not %s',
  (image) => {
    const text = refusal(`${withPrice('0')}    image: ${image}\n`)
    expect(text).toContain('agents.yaml:5: agents[0]: image')
    expect(text).not.toContain('pw')
  },
)

test('all problems of the file are reported at once, each with its line', () => {
  const text = `agents:
  - 5
  - name: [1]
    description: d
    price: 1
    timeout_seconds: soon
  - name: a
    description: d
  - name: b
    description: ${'x'.repeat(4001)}
    price: 1
    tags: text
    model: m
    command: run.sh
    timeout_seconds: 3601
`
  const lines = refusal(text).split('\n')
  expect(
    lines.map((line) =>
      line
        .match(/^agents\.yaml:(\d+): agents\[(\d)\]: (\w+)/)
        ?.slice(1)
        .join(' '),
    ),
  ).toEqual(['2 0 expected', '3 1 name', '6 1 timeout_seconds', '7 2 price', '12 3 tags', '14 3 command'])
})

test.each([
  ['- name: a', 'expected "agents:" with a list'],
  ['agents: 5', 'expected a list'],
  ['agents: {name: a}', 'expected a list'],
  ['agents: []\nagents: []', 'agents.yaml:2: agents is given twice'],
  ['agents:\n\t- name: a', 'agents.yaml:2: not valid YAML: Tabs'],
  ['agents: [', 'not valid YAML'],
  ['agents: !secret x', 'not valid YAML: Unresolved tag'],
  ['a: 1\n---\nb: 2', 'not valid YAML: Source contains multiple documents'],
  ['agents:\n  - name: a\n    name: b\n', 'agents.yaml:3: agents[0]: name is given twice'],
  ['agents:\n  - {name: a, description: d, price: 1, model: m, command: [x]}', 'give either model or command'],
  ['agents:\n  - {name: "a\\u0007", description: d, price: 1}', 'control characters'],
  ['agents:\n  - {name: a, description: d, price: 1, __proto__: {price: 2}}', '"__proto__" is not known'],
  ['agents:\n  - {name: a, description: d, price: 1, tags: [a, {b: 1}]}', 'tags: expected a list'],
])('%j is refused: %s', (text, expected) => {
  expect(refusal(text)).toContain(expected)
})

test('two agents with one name, in any Unicode form, are refused with both lines (D5)', () => {
  const text =
    'agents:\n  - {name: "\u00c9cho", description: d, price: 1}\n  - {name: "E\u0301cho", description: d, price: 1}\n'
  expect(refusal(text)).toMatch(
    /^agents\.yaml:3: agents\[1\]: .* is already used in line 2: give each agent its own name$/,
  )
})

test('aliases that expand to gigabytes are refused at once', () => {
  const bomb = ['a0: &a0 [x, x, x]', ...Array.from({ length: 40 }, (_, i) => `a${i + 1}: &a${i + 1} [*a${i}, *a${i}]`)]
  expect(refusal(bomb.join('\n'))).toContain('agents.yaml:2: aliases (*name) are not supported')
})

test.each(['['.repeat(20_000), '{a: '.repeat(20_000), '- '.repeat(20_000)])(
  'deep nesting is refused clearly',
  (text) => {
    expect(refusal(text)).toBe('agents.yaml:1: the YAML is nested too deeply')
  },
)

test('more agents than a node can host are refused', () => {
  expect(refusal(`agents:\n${'  - 1\n'.repeat(1001)}`)).toContain('the list has 1001 agents')
})

const FILE = `# agents of this node
agents:
  # the first one
  - name: one # its name
    description: |
      text
      over lines
    price: 0.10 # ten cents
    tags: [x, y]

  # the second
  - description: "2"
    name: two
    price: 1e-6
# the end
`

test('adding an agent keeps the comments, order and spelling of the file (D11)', () => {
  const document = parseAgentsDocument(FILE, PATH)
  document.put(agent({ name: 'three', tags: ['a', 'b'], price: 0.000249 }))
  expect(document.text()).toBe(`# agents of this node
agents:
  # the first one
  - name: one # its name
    description: |
      text
      over lines
    price: 0.10 # ten cents
    tags: [ x, y ]

  # the second
  - description: "2"
    name: two
    price: 1e-6
  - name: three
    description: d
    price: 0.000249
    tags: [ a, b ]

# the end
`)
})

test('an agent with the same name is replaced in place, and only changed fields are written (D11)', () => {
  const document = parseAgentsDocument(FILE, PATH)
  document.put(agent({ name: 'one', description: 'text\nover lines\n', price: 0.2, model: 'builtin/echo' }))
  const text = document.text()
  expect(text).toContain('  # the first one\n  - name: one # its name\n')
  expect(text).toContain('price: 0.2 # ten cents\n    model: builtin/echo\n')
  expect(text).not.toContain('tags')
  expect(read(text).map(({ name, price }) => [name, price])).toEqual([
    ['one', 200000n],
    ['two', 1n],
  ])
})

test('an unchanged value keeps its spelling', () => {
  const document = parseAgentsDocument(FILE, PATH)
  document.put(agent({ name: 'one', description: 'other', price: 0.1, tags: ['x', 'y'] }))
  document.put(agent({ name: 'two', description: '2', price: 0.000001 }))
  expect(document.text()).toBe(
    FILE.replace('|\n      text\n      over lines', 'other')
      .replace('[x, y]', '[ x, y ]')
      .replace('# the end', '\n# the end'),
  )
})

test('removing an agent leaves the others and their comments', () => {
  const document = parseAgentsDocument(FILE, PATH)
  expect(document.remove('nobody')).toBe(false)
  expect(document.remove('one')).toBe(true)
  const text = document.text()
  expect(text).toContain('# agents of this node')
  expect(text).toContain('# the second\n')
  expect(read(text).map(({ name }) => name)).toEqual(['two'])
  expect(document.remove('two')).toBe(true)
  expect(read(document.text())).toEqual([])
})

test.each(['', '# mine\n', 'agents: # mine\n', '# mine\nagents: []\n', 'agents: [] # mine\n', '---\n'])(
  'the first agent is added to %j as a list, and comments stay',
  (before) => {
    const document = parseAgentsDocument(before, PATH)
    document.put(agent())
    const text = document.text()
    expect(text).toContain('agents:\n  ')
    expect(text).toContain('- name: a\n')
    expect(text.includes('# mine')).toBe(before.includes('# mine'))
  },
)

test('a list without indentation stays without indentation', () => {
  const document = parseAgentsDocument('agents:\n- name: one\n  description: d\n  price: 1\n', PATH)
  document.put(agent())
  expect(document.text()).toContain('agents:\n- name: one\n  description: d\n  price: 1\n- name: a\n')
})

const anyText = (max: number) =>
  fc
    .string({ unit: 'grapheme', minLength: 1, maxLength: max })
    .map((text) => text.trim())
    .filter((text) => text !== '' && text.length <= max)
const anyAgent = fc
  .record(
    {
      name: anyText(40),
      description: fc.oneof(
        anyText(300),
        fc.array(anyText(40), { minLength: 1 }).map((lines) => lines.join('\n')),
      ),
      price: fc.integer({ min: 0, max: 2_000_000_000 }).map((atomic) => atomic / 1e6),
      tags: fc.array(anyText(20), { maxLength: 4 }),
      command: fc.array(fc.string({ minLength: 1, maxLength: 30 }), { minLength: 1, maxLength: 4 }),
      timeout_seconds: fc.integer({ min: 1, max: 3600 }),
    },
    { requiredKeys: ['name', 'description', 'price'] },
  )
  .map((entry) => AgentDefinition.safeParse(entry))
  .filter((parsed) => parsed.success)
  .map((parsed) => parsed.data!)

test('every agent is read back unchanged, and writing it again changes nothing (D11)', () => {
  fc.assert(
    fc.property(fc.array(anyAgent, { maxLength: 5 }), (agents) => {
      const document = parseAgentsDocument(FILE, PATH)
      for (const one of agents) document.put(one)
      const text = document.text()
      const again = parseAgentsDocument(text, PATH)
      expect(again.agents).toEqual(document.agents)
      expect(again.text()).toBe(text)
      for (const one of agents) expect(again.agents).toContainEqual(agents.findLast(({ name }) => name === one.name))
    }),
    { numRuns: 300 },
  )
})

test('every invalid text fails with a clear error', () => {
  const pieces = fc.constantFrom(
    'agents:',
    '\n',
    '  ',
    '- ',
    'name: ',
    'price: ',
    '{',
    '}',
    '[',
    ']',
    '&a ',
    '*a',
    '!!',
    '|',
    '>',
    '"',
    '#',
    ': ',
    '? ',
    '0.1',
    '\t',
    '---\n',
    '%',
    '\u0000',
    '<<: ',
  )
  fc.assert(
    fc.property(fc.array(fc.oneof(pieces, fc.string({ maxLength: 5 })), { maxLength: 40 }), (parts) => {
      try {
        read(parts.join(''))
      } catch (error) {
        expect((error as Error).name).toBe('ConfigError')
        expect((error as Error).message).toMatch(/^agents\.yaml:\d+: /)
      }
    }),
    { numRuns: 1000 },
  )
})
