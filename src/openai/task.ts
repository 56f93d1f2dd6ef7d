import { invalidRequest, unsupported } from './door-error.ts'

/** A message of a conversation, as both kinds of requests give it. */
type Turn = { label: string; text: string }

const labels: Readonly<Record<string, string>> = {
  system: 'System',
  developer: 'System',
  user: 'User',
  assistant: 'Assistant',
  tool: 'Tool',
  function: 'Tool',
}

/**
 * The task of a conversation. One user message is its text, unchanged. Anything else becomes a transcript: instructions
 * first, then the turns. The same conversation always gives the same task.
 *
 * @throws DoorError 400
 */
export function taskOf(messages: unknown, instructions: unknown, param: 'messages' | 'input'): string {
  if (instructions != null && typeof instructions !== 'string') {
    throw invalidRequest('instructions', 'instructions must be a string')
  }
  const system = instructions == null || instructions === '' ? [] : [{ label: 'System', text: instructions }]
  if (typeof messages === 'string') return transcript([...system, { label: 'User', text: messages }], param)
  if (!Array.isArray(messages) || messages.length === 0) {
    throw invalidRequest(param, `${param} must be a list with at least one message`)
  }
  const turns = messages.flatMap((message, place) => turnOf(message, `${param}[${place}]`))
  const isSystem = ({ label }: Turn) => label === 'System'
  const ordered = [...system, ...turns.filter(isSystem), ...turns.filter((turn) => !isSystem(turn))]
  return transcript(ordered, param)
}

function transcript(turns: readonly Turn[], param: string): string {
  const last = turns.at(-1)
  if (last === undefined || last.label === 'System' || last.label === 'Assistant') {
    throw invalidRequest(param, `${param} must end with a message of the user: there is nothing to do`)
  }
  const text = turns.length === 1 ? last.text : turns.map((turn) => `${turn.label}:\n${turn.text}`).join('\n\n')
  if (last.text.trim() === '') throw invalidRequest(param, `${param}: the last message is empty`)
  if (!text.isWellFormed())
    throw invalidRequest(param, `${param}: the text is not well-formed Unicode (a lone surrogate)`)
  return text
}

function turnOf(message: unknown, place: string): Turn[] {
  if (typeof message !== 'object' || message === null) throw invalidRequest(place, `${place} must be an object`)
  const { role, type = 'message', content, tool_calls: toolCalls, name, ...item } = message as Record<string, unknown>
  // Items of the Responses API that are no messages.
  if (type === 'function_call') return [{ label: 'Assistant', text: callText(item.name ?? name, item.arguments) }]
  if (type === 'function_call_output') return [{ label: 'Tool', text: textOf(item.output, place) }]
  if (type === 'reasoning' || type === 'item_reference') return []
  if (type !== 'message') throw unsupported(place, `${place}: items of the type ${shown(type)} are not supported`)
  if (typeof role !== 'string' || !Object.hasOwn(labels, role)) {
    const known = 'system, developer, user, assistant or tool'
    throw invalidRequest(`${place}.role`, `${place}.role must be ${known}`)
  }
  const said = content == null ? '' : textOf(content, `${place}.content`)
  const called = Array.isArray(toolCalls) ? toolCalls.map(toolCallText) : []
  const text = [...(said === '' ? [] : [said]), ...called].join('\n')
  if (role === 'assistant' && text === '') return []
  return [{ label: labels[role]!, text }]
}

function toolCallText(call: unknown): string {
  const { name, arguments: given } = ((call as { function?: unknown } | null)?.function ?? {}) as Record<
    string,
    unknown
  >
  return callText(name, given)
}

function callText(name: unknown, given: unknown): string {
  return `[calls ${shown(name)} with ${typeof given === 'string' ? given : JSON.stringify(given ?? {})}]`
}

const textParts = new Set(['text', 'input_text', 'output_text', 'refusal'])

/** The text of a content: a string, or a list of text parts. Images, files and sound would not reach the agent. */
function textOf(content: unknown, place: string): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) throw invalidRequest(place, `${place} must be a string or a list of parts`)
  const texts = content.map((part, index) => {
    const { type, text, refusal } = (typeof part === 'object' && part !== null ? part : {}) as Record<string, unknown>
    if (!textParts.has(String(type))) {
      throw unsupported(`${place}[${index}]`, `${place}[${index}]: agents take text only, not ${shown(type)}`)
    }
    const said = type === 'refusal' ? (refusal ?? text) : text
    if (typeof said !== 'string')
      throw invalidRequest(`${place}[${index}].text`, `${place}[${index}].text must be a string`)
    return said
  })
  return texts.join('\n')
}

function shown(value: unknown): string {
  return JSON.stringify(String(value).slice(0, 60))
}
