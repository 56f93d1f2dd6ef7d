import { expect, test } from 'vitest'
import { commands } from '../../src/cli/commands.ts'
import { placesOf } from '../../src/cli/completion.ts'
import { completeSlashLine, readSlashLine, splitWords } from '../../src/cli/text/slash-line.ts'
import { onlyColors } from '../../src/cli/text/terminal-text.ts'

test.each([
  ['/status', 'status'],
  ['/agent list', 'agent list'],
  ['/agent discover summarize a text --max-price 0.1', 'agent discover --max-price 0.1 -- summarize a text'],
  ["/agent execute abc don't panic", "agent execute --agent-id abc --task=don't panic"],
  ['/agent execute --agent-id abc --task "a  b"', 'agent execute --agent-id abc --task a  b'],
  ['/agent execute abc --max-price 1 do -- it', 'agent execute --max-price 1 --agent-id abc --task=do -- it'],
  ['/order', 'order list'],
  ['/order 3f0e8a52-0a7e', 'order show 3f0e8a52-0a7e'],
  ['/order execute 3f0e the task', 'order execute --task=the task -- 3f0e'],
  ['/workflow', 'workflow list'],
  ['/workflow 3f0e', 'workflow show 3f0e'],
  ['/session abc234', 'session list --agent-id abc234'],
  ['/wallet balance', 'wallet -- balance'],
  ['/approve', 'approvals list'],
  ['/approve 3f0e-1', 'approvals approve -- 3f0e-1'],
  ['/help agent execute', 'agent execute --help'],
  ['/nonsense x', 'nonsense x'],
])('%s is stoa %s', (line, words) => {
  const read = readSlashLine(line, commands)
  expect(read.kind === 'run' && read.argv.join(' ')).toBe(words)
})

test('reads lines of the interface itself, mistakes, and commands for a shell', () => {
  expect(readSlashLine('/exit', commands)).toEqual({ kind: 'leave' })
  expect(readSlashLine('/', commands)).toEqual({ kind: 'help' })
  expect(readSlashLine('/agent execute x "open', commands)).toMatchObject({ kind: 'mistake' })
  expect(readSlashLine('/start', commands)).toMatchObject({ kind: 'mistake', text: expect.stringContaining('shell') })
})

test('splits words like a shell', () => {
  expect(splitWords(`a "b \\"c\\" d" 'e f' it's ""`)).toEqual(['a', 'b "c" d', 'e f', "it's", ''])
})

test('completes commands, options, values and shown ids', () => {
  const places = placesOf(commands)
  const at = (text: string, shown: string[] = [], waiting: string[] = []) =>
    completeSlashLine(text, places, { shown, waiting }).candidates
  expect(at('/age')).toEqual(['/agent'])
  expect(at('/')).not.toContain('/start')
  expect(at('/agent ')).toEqual(expect.arrayContaining(['config', 'discover', 'execute', 'list', 'register']))
  expect(at('/agent execute ', ['abc', 'xyz'])).toEqual(['abc', 'xyz'])
  expect(at('/approve ', ['abc', '3f0e-1'], ['3f0e-2'])).toEqual(['3f0e-2'])
  expect(at('/order ', ['abc', '3f0e-1'])).toContain('3f0e-1')
  expect(at('/agent execute ')).toContain('--agent-id')
  expect(at('/agent execute --agent-id a', ['abc', 'xyz'])).toEqual(['abc'])
  expect(at('/agent execute --')).not.toContain('--port')
  expect(at('/agent discover x --sort p')).toEqual(['price'])
  expect(at('/wallet ')).toEqual(['address', 'balance', 'send'])
})

test('text of a peer can only color a line: every other sequence is removed (T10)', () => {
  const hostile = 'a\u001b[2Jb\u001b]0;title\u0007c\u009b31m\u202ed \u001b[31mred\u001b[39m\tx'
  expect(onlyColors(hostile)).toBe('ab\ufffd]0;title\ufffdc\ufffd31m\ufffdd \u001b[31mred\u001b[39m  x')
})
