import { randomUUID } from 'node:crypto'
import { type Message, Role, type SendMessageResult, type Task, TaskState } from '@a2a-js/sdk'
import {
  type Client,
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk/client'

export type Binding = { version: '1.0' | '0.3'; binding: 'JSONRPC' | 'HTTP+JSON' }
export const bindings: Binding[] = [
  { version: '1.0', binding: 'JSONRPC' },
  { version: '1.0', binding: 'HTTP+JSON' },
  { version: '0.3', binding: 'JSONRPC' },
  { version: '0.3', binding: 'HTTP+JSON' },
]

/** The SDK's own client of one agent, limited to one version and binding that the agent card offers. */
export async function a2aClient(
  agentUrl: string,
  { version, binding }: Binding = bindings[0]!,
  fetchImpl: typeof fetch = fetch,
): Promise<Client> {
  const legacyCompat = { enabled: true }
  const card = await new DefaultAgentCardResolver({ legacyCompat, fetchImpl }).resolve(
    `${agentUrl}/`,
    version === '1.0' ? '.well-known/agent-card.json' : '.well-known/agent.json',
  )
  const supportedInterfaces = card.supportedInterfaces.filter(
    (one) => one.protocolVersion === version && one.protocolBinding === binding,
  )
  const transports = [
    new JsonRpcTransportFactory({ fetchImpl, legacyCompat }),
    new RestTransportFactory({ fetchImpl, legacyCompat }),
  ]
  return new ClientFactory({ transports }).createFromAgentCard({ ...card, supportedInterfaces })
}

export function message(text: string, changes: Partial<Message> = {}): Message {
  return {
    messageId: randomUUID(),
    contextId: '',
    taskId: '',
    role: Role.ROLE_USER,
    parts: [{ content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: 'text/plain' }],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
    ...changes,
  }
}

export const send = (text: string, changes: Partial<Message> = {}) => ({
  tenant: '',
  message: message(text, changes),
  configuration: undefined,
  metadata: undefined,
})

export function asTask(result: SendMessageResult): Task {
  if ('messageId' in result) throw new Error('a message, where a task was expected')
  return result
}

export const stateOf = (task: Task) => TaskState[task.status?.state ?? 0]!.replace('TASK_STATE_', '')
export const resultOf = (task: Task) => {
  const content = task.artifacts[0]?.parts[0]?.content
  return content?.$case === 'text' ? content.value : content?.value
}
