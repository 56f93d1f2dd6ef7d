import { expect, test } from 'vitest'
import { OPERATOR } from '../schema/caller.ts'
import type { MarketTools, ToolResult } from '../tools/tools.ts'
import type { Turn } from './executor.ts'
import { marketWork } from './market-work.ts'
import { resultArtifact } from './task-events.ts'

function run(result: ToolResult) {
  const tools: MarketTools = { call: async () => result }
  const turn = { input: JSON.stringify({ skill: 'execute_agent' }), caller: OPERATOR, messageId: 'm', running: {} }
  const signal = new AbortController().signal
  return marketWork(tools)({ ...turn, signal } as unknown as Turn, { working: () => {} })
}

test('a bought result that is no text comes with a part of its bytes; one that is text does not', async () => {
  const bytes = Buffer.from([0xff, 0xfe, 0x00, 0x41])
  const from = { agent_id: 'a', seller_id: 's', order_id: 'o', paid: '0', tx_hash: '' }
  const output_base64 = bytes.toString('base64')
  const value = { status: 'completed', output: '��A', output_base64 }
  const outcome = await run({ value, foreign: { ...from, output: '��A', output_base64 } })
  expect(outcome).toEqual({ kind: 'completed', output: value, bytes })
  const { parts } = resultArtifact(value, bytes)
  expect(parts.map(({ content, mediaType }) => [content?.$case, mediaType])).toEqual([
    ['data', 'application/json'],
    ['raw', 'application/octet-stream'],
  ])
  expect(parts[1]?.content?.value).toEqual(bytes)
  expect(await run({ value: { output: 'text' }, foreign: { ...from, output: 'text' } })).not.toHaveProperty('bytes')
})
