// By hand: eventsource-parser drops an id without data, the place where a cut-off client resumes (ADR-24).
import { CodedError } from '../../lib/errors.ts'

export type ReadEvent = { id: string | undefined; event: string; data: string }

/** Longest event. An order holds a task and a result of some MB, so a longer event does not come from a node. */
const EVENT_LENGTH_MAX = 64 * 1024 * 1024

/** Yields the events of a `text/event-stream` body as they arrive. An event without data carries only an id. */
export async function* readEvents(
  body: AsyncIterable<Uint8Array>,
  onBytes: () => void = () => {},
): AsyncGenerator<ReadEvent> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const bytes of body) {
    onBytes()
    const searched = Math.max(0, text.length - 1)
    text += decoder.decode(bytes, { stream: true })
    let start = 0
    for (let end = text.indexOf('\n\n', searched); end >= 0; end = text.indexOf('\n\n', start)) {
      yield* readBlock(text.slice(start, end))
      start = end + 2
    }
    text = text.slice(start)
    if (text.length > EVENT_LENGTH_MAX) throw new CodedError('API_ANSWER_INVALID', 'an event of the node is too long')
  }
}

function* readBlock(block: string): Generator<ReadEvent> {
  const read: ReadEvent = { id: undefined, event: 'message', data: '' }
  let isEmpty = true
  for (const line of block.split('\n')) {
    const [, field, value] = /^(id|event|data): ?(.*)$/.exec(line) ?? []
    if (field === undefined) continue
    isEmpty = false
    if (field === 'data') read.data += value!
    else read[field as 'id' | 'event'] = value!
  }
  if (!isEmpty) yield read
}
