import { expect, test } from 'vitest'
import { CodedError } from '../lib/errors.ts'
import { type Logger, silentLogger } from '../lib/logger.ts'
import { OPERATOR } from '../schema/caller.ts'
import type { MarketTools } from '../tools/tools.ts'
import { marketCall } from './market-call.ts'
import { toolResult } from './tool-result.ts'

const foreign = { output: 'theirs', agent_id: 'a', seller_id: 's', order_id: 'o', paid: '0', tx_hash: '' }
const textOf = ({ content }: { content: object[] }) => (content[0] as { text: string }).text

test('T10 text of another party is fenced by a mark it cannot know, and stands nowhere else in the text', () => {
  const results = [1, 2].map(() => toolResult({ value: { output: 'theirs', inner: { output: 'theirs' } }, foreign }))
  const marks = results.map(
    (result) => /<untrusted-output (\w+)>\ntheirs\n<\/untrusted-output \1>$/.exec(textOf(result))![1],
  )
  expect(marks[0]).not.toBe(marks[1])
  expect(textOf(results[0]!).split('theirs').length).toBe(2)
})

test('a result that is no text comes as a resource with its bytes, beside as much of it as is text', () => {
  const output_base64 = Buffer.from([0xff, 0xfe, 0x00, 0x41]).toString('base64')
  const value = { output: '��A', output_base64, notes: ['the output is not UTF-8'] }
  const { content, structuredContent } = toolResult({ value, foreign: { ...foreign, output: '��A', output_base64 } })
  expect(content).toMatchObject([
    { type: 'text', text: expect.stringContaining('the output is not UTF-8') },
    {
      type: 'resource',
      resource: { uri: 'stoa:orders/o/output', mimeType: 'application/octet-stream', blob: output_base64 },
    },
  ])
  expect(textOf({ content })).not.toContain(output_base64)
  expect(structuredContent).toEqual(value)
  expect(toolResult({ value: {}, foreign }).content).toHaveLength(1)
})

test('a payment that has not settled yet brings no receipt', () => {
  const payment = { network: 'n', payer: 'p', tx_hash: '' }
  expect(toolResult({ value: { payment }, foreign })._meta).not.toHaveProperty('x402/payment-response')
})

function callThat(fail: unknown, logger: Logger = silentLogger) {
  const tools: MarketTools = { call: () => Promise.reject(fail) }
  const call = marketCall(tools, { logger, stopping: new AbortController().signal })
  return call(
    'execute_agent',
    {},
    {
      caller: OPERATOR,
      signal: new AbortController().signal,
      progress: () => {},
    },
  )
}

test('what was thrown on purpose is said, with what a program needs', async () => {
  const error = Object.assign(new CodedError('OVER_BUDGET', 'ask'), { correlationId: 'c-1' })
  const failed = await callThat(error)
  expect(failed.isError).toBe(true)
  expect(failed._meta).toEqual({ 'stoa/error': { code: 'OVER_BUDGET', message: 'ask', correlation_id: 'c-1' } })
})

test('a failed call names its order, in the text and for programs, so that get_execution can be asked', async () => {
  const failed = await callThat(Object.assign(new CodedError('EXECUTION_FAILED', 'it ended'), { orderId: 'o-1' }))
  expect(failed._meta).toEqual({ 'stoa/error': { code: 'EXECUTION_FAILED', message: 'it ended', order_id: 'o-1' } })
  expect(failed.content).toEqual([
    { type: 'text', text: expect.stringMatching(/^EXECUTION_FAILED: it ended\n.*get_execution.*o-1/) },
  ])
})

test('T21 a fault of the node is logged and not shown', async () => {
  const logged: object[] = []
  const failed = await callThat(new Error('/home/x: key 0xabc'), {
    ...silentLogger,
    error: (data) => logged.push(data),
  })
  expect(JSON.stringify(failed)).not.toMatch(/home|0xabc/)
  expect(logged).toMatchObject([{ err: { message: '/home/x: key 0xabc' } }])
})
