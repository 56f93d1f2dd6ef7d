import type { ServerSentEvent } from '../lib/event-stream.ts'
import type { DoorError } from './door-error.ts'

/** What every part of an answer says. */
export type AnswerHead = {
  /** Id of the answer, without the prefix of its form. */
  id: string
  /** Unix seconds. */
  created: number
  /** The agent that serves. */
  model: string
}
export type Usage = {
  prompt: number
  completion: number
  /** USDC. */
  cost: number
  /** True: the output ends with what was paid for, and the agent would have gone on. */
  isCut: boolean
}

/** How one of the two endpoints writes an answer. */
export type AnswerForm = {
  whole(head: AnswerHead, text: string, usage: Usage): unknown
  stream(head: AnswerHead, options: { includeUsage: boolean }): StreamForm
}
type StreamForm = {
  begin(): ServerSentEvent[]
  delta(text: string): ServerSentEvent[]
  end(text: string, usage: Usage): ServerSentEvent[]
  /** Ends a stream whose call failed. SDKs throw an error with its code. */
  fail(error: DoorError): ServerSentEvent[]
}

/** `/v1/chat/completions`. */
export const chatForm: AnswerForm = {
  whole: ({ id, created, model }, content, usage) => ({
    ...{ id: `chatcmpl-${id}`, object: 'chat.completion', created, model },
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content, refusal: null },
        logprobs: null,
        finish_reason: finish(usage),
      },
    ],
    usage: chatUsage(usage),
  }),
  stream({ id, created, model }, { includeUsage }) {
    const head = { id: `chatcmpl-${id}`, object: 'chat.completion.chunk', created, model }
    const chunk = (delta: object, finish_reason: 'stop' | 'length' | null = null) => ({
      data: { ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason }] },
    })
    return {
      begin: () => [chunk({ role: 'assistant', content: '' })],
      delta: (content) => [chunk({ content })],
      end: (_text, usage) => [
        chunk({}, finish(usage)),
        ...(includeUsage ? [{ data: { ...head, choices: [], usage: chatUsage(usage) } }] : []),
        { text: '[DONE]' },
      ],
      // Without `[DONE]`: a client must not take a failed answer for a whole one.
      fail: ({ body }) => [{ data: body }],
    }
  },
}

/** `/v1/responses`. */
export const responsesForm: AnswerForm = {
  whole: (head, text, usage) => ({
    ...responseHead(head, statusOf(usage)),
    ...(usage.isCut && { incomplete_details: { reason: 'max_output_tokens' } }),
    output: [message(head, text, statusOf(usage))],
    usage: responsesUsage(usage),
  }),
  stream(head) {
    let number = 0
    const event = (type: string, fields: object) => ({
      event: type,
      data: { type, sequence_number: number++, ...fields },
    })
    const item = { output_index: 0, item_id: `msg_${head.id}` }
    const part = { ...item, content_index: 0 }
    return {
      begin: () => [
        event('response.created', { response: { ...responseHead(head, 'in_progress'), output: [], usage: null } }),
        event('response.output_item.added', {
          output_index: 0,
          item: { ...message(head, '', 'in_progress'), content: [] },
        }),
        event('response.content_part.added', { ...part, part: textPart('') }),
      ],
      delta: (delta) => [event('response.output_text.delta', { ...part, delta, logprobs: [] })],
      end: (text, usage) => [
        event('response.output_text.done', { ...part, text, logprobs: [] }),
        event('response.content_part.done', { ...part, part: textPart(text) }),
        event('response.output_item.done', { output_index: 0, item: message(head, text, statusOf(usage)) }),
        event(`response.${statusOf(usage)}`, { response: responsesForm.whole(head, text, usage) }),
      ],
      fail: ({ body: { error } }) => [
        event('response.failed', {
          response: {
            ...{ ...responseHead(head, 'failed'), output: [], usage: null },
            error: { code: error.code, message: error.message },
          },
        }),
        event('error', { code: error.code, message: error.message, param: error.param }),
      ],
    }
  },
}

/** As OpenAI's own models say it where their tokens are used up. */
const finish = ({ isCut }: Usage) => (isCut ? 'length' : 'stop')
const statusOf = ({ isCut }: Usage) => (isCut ? 'incomplete' : 'completed')

function chatUsage({ prompt, completion, cost }: Usage) {
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion, cost }
}

function responsesUsage({ prompt, completion, cost }: Usage) {
  return {
    ...{ input_tokens: prompt, input_tokens_details: { cached_tokens: 0 } },
    ...{ output_tokens: completion, output_tokens_details: { reasoning_tokens: 0 } },
    ...{ total_tokens: prompt + completion, cost },
  }
}

function responseHead({ id, created, model }: AnswerHead, status: string) {
  return {
    ...{
      id: `resp_${id}`,
      object: 'response',
      created_at: created,
      status,
      model,
      error: null,
      incomplete_details: null,
    },
    ...{ instructions: null, metadata: {}, parallel_tool_calls: false, temperature: null, top_p: null },
    ...{ tool_choice: 'none', tools: [], store: false },
  }
}

function message({ id }: AnswerHead, text: string, status: string) {
  return { type: 'message', id: `msg_${id}`, role: 'assistant', status, content: [textPart(text)] }
}

function textPart(text: string) {
  return { type: 'output_text', text, annotations: [], logprobs: [] }
}
