import { expect, test } from 'vitest'
import { taskOf } from './task.ts'

const chat = (...messages: unknown[]) => taskOf(messages, undefined, 'messages')

test('one message of the user is the task, unchanged', () => {
  expect(chat({ role: 'user', content: '  Summarize:\n\ta  ' })).toBe('  Summarize:\n\ta  ')
  expect(taskOf('Say hi', undefined, 'input')).toBe('Say hi')
})

test('a conversation becomes a transcript with the instructions first', () => {
  const task = chat(
    { role: 'user', content: 'Hello' },
    { role: 'assistant', content: 'Hi.', tool_calls: [{ function: { name: 'look', arguments: '{"a":1}' } }] },
    { role: 'tool', tool_call_id: '1', content: 'found' },
    { role: 'developer', content: 'Be short.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'And' },
        { type: 'text', text: 'now?' },
      ],
    },
  )
  expect(task).toBe(
    'System:\nBe short.\n\nUser:\nHello\n\nAssistant:\nHi.\n[calls "look" with {"a":1}]\n\nTool:\nfound\n\nUser:\nAnd\nnow?',
  )
})

test('the items of the Responses API become the same transcript', () => {
  const input = [
    { role: 'user', content: [{ type: 'input_text', text: 'Add 1 and 2' }] },
    { type: 'function_call', call_id: 'x', name: 'add', arguments: '[1,2]' },
    { type: 'function_call_output', call_id: 'x', output: '3' },
    { type: 'reasoning', summary: [] },
  ]
  expect(taskOf(input, 'Count.', 'input')).toBe(
    'System:\nCount.\n\nUser:\nAdd 1 and 2\n\nAssistant:\n[calls "add" with [1,2]]\n\nTool:\n3',
  )
})

test.each([
  ['nothing', []],
  ['only instructions', [{ role: 'system', content: 'Be short.' }]],
  [
    'an answer at the end',
    [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'b' },
    ],
  ],
  ['an empty last message', [{ role: 'user', content: '  ' }]],
  ['an unknown role', [{ role: 'oracle', content: 'a' }]],
  ['a message that is no object', ['a']],
  ['a part without text', [{ role: 'user', content: [{ type: 'text' }] }]],
  ['a lone surrogate', [{ role: 'user', content: 'a\ud800' }]],
])('%s is refused with 400', (_, messages) => {
  expect(() => taskOf(messages, undefined, 'messages')).toThrow(expect.objectContaining({ status: 400 }))
})

test.each(['image_url', 'input_image', 'input_audio', 'file'])('a part of the type %s is refused', (type) => {
  const messages = [{ role: 'user', content: [{ type, image_url: 'data:' }] }]
  expect(() => taskOf(messages, undefined, 'messages')).toThrow(
    expect.objectContaining({
      status: 400,
      body: { error: expect.objectContaining({ code: 'unsupported_parameter' }) },
    }),
  )
})
