import fc from 'fast-check'
import { expect, test } from 'vitest'
import { formatModelName, llmProviders, parseModelName } from './model-name.ts'
import { AgentError } from './runtime.ts'

const parse = (text: string, hasBaseUrl = false) => parseModelName(text, { hasBaseUrl })

test.each([
  ['openai/gpt-5.4-mini', 'openai', 'gpt-5.4-mini'],
  ['OpenAI/gpt-5.4-mini', 'openai', 'gpt-5.4-mini'],
  ['anthropic/claude-haiku-4-5', 'anthropic', 'claude-haiku-4-5'],
  ['google/gemini-2.5-flash', 'google', 'gemini-2.5-flash'],
  ['openrouter/anthropic/claude-sonnet-5', 'openrouter', 'anthropic/claude-sonnet-5'],
  ['ollama/qwen/qwen3:8b', 'ollama', 'qwen/qwen3:8b'],
  ['openai-compatible/Qwen/Qwen3-8B', 'openai-compatible', 'Qwen/Qwen3-8B'],
  ['gemini-2.5-flash', 'google', 'gemini-2.5-flash'],
  ['claude-opus-5', 'anthropic', 'claude-opus-5'],
  ['gpt-4o', 'openai', 'gpt-4o'],
  ['chatgpt-4o-latest', 'openai', 'chatgpt-4o-latest'],
  ['o1', 'openai', 'o1'],
  ['o3-mini', 'openai', 'o3-mini'],
  ['  gpt-4o\n', 'openai', 'gpt-4o'],
] as const)('%j is of %s: %s (D10)', (text, provider, modelId) => {
  expect(parse(text)).toEqual({ kind: 'llm', provider, modelId })
})

test('builtin/echo is a built-in agent (D10)', () => {
  expect(parse('builtin/echo')).toEqual({ kind: 'builtin', name: 'echo' })
})

test.each(['Qwen/Qwen3-8B', 'llama3', 'mistral:7b', 'gpt', 'o', 'ollama'])(
  '%j is a model of the server at OPENAI_BASE_URL, and without one the error names the fixes',
  (text) => {
    expect(parse(text, true)).toEqual({ kind: 'llm', provider: 'openai-compatible', modelId: text })
    expect(() => parse(text)).toThrow(
      /is not understood: write provider\/model with one of openai, .* or set OPENAI_BASE_URL/,
    )
  },
)

test.each([
  ['gemini/2.5-flash', 'write google/2.5-flash'],
  ['claude/opus', 'write anthropic/opus'],
  ['vllm/x', 'write openai-compatible/x'],
  ['openai/', 'write openai/<model>'],
  ['builtin/', 'write builtin/<model>'],
  ['', 'no spaces'],
  ['gpt 4', 'no spaces'],
  ['gpt-4\u0000', 'no spaces'],
  ['x'.repeat(201), 'no spaces'],
  ['http://127.0.0.1:8000/agent', 'give it as `http: <url>`'],
  ['https://example.org', 'give it as `http: <url>`'],
  ['module:./agent.ts', 'give it as `module: <path>`'],
  ['command:python3 agent.py', 'no spaces'],
  ['command:run.sh', 'give the program as `command: [program, argument, …]`'],
])('%j is refused with the fix: %s', (text, fix) => {
  for (const hasBaseUrl of [false, true]) {
    expect(() => parse(text, hasBaseUrl)).toThrow(fix)
    expect(() => parse(text, hasBaseUrl)).toThrow(AgentError)
  }
})

test('names of object prototypes are names like any other', () => {
  expect(parse('constructor/x', true)).toMatchObject({ provider: 'openai-compatible', modelId: 'constructor/x' })
  expect(() => parse('__proto__/x')).toThrow(AgentError)
})

test('the full form of every understood name parses to the same model', () => {
  const texts = fc.oneof(
    fc.string({ maxLength: 60 }),
    fc
      .tuple(fc.constantFrom(...llmProviders, 'builtin', 'gemini', ''), fc.string({ maxLength: 40 }))
      .map((parts) => parts.join('/')),
    fc
      .constantFrom('gpt-', 'o1-', 'gemini-', 'claude-')
      .chain((start) => fc.string({ maxLength: 20 }).map((end) => start + end)),
  )
  fc.assert(
    fc.property(texts, fc.boolean(), (text, hasBaseUrl) => {
      try {
        const model = parse(text, hasBaseUrl)
        expect(parse(formatModelName(model), hasBaseUrl)).toEqual(model)
      } catch (error) {
        expect(error).toBeInstanceOf(AgentError)
      }
    }),
    { numRuns: 1000 },
  )
})
