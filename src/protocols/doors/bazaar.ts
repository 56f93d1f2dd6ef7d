/** The example of a task in catalogs. The true tasks differ from agent to agent: the description says which. */
const TASK = 'The task for the agent, as text'
const RESULT = 'What the agent answers'

const bodySchema = { type: 'object', properties: { task: { type: 'string' } }, required: ['task'] }

/**
 * The declaration of x402's Bazaar extension: how a client calls an agent. It is the same for all, and small, because it
 * travels in a header. Each agent has an address of its own, so each is an entry of its own in a catalog.
 */
export const bazaarExtension = {
  info: {
    input: { type: 'http', method: 'POST', bodyType: 'json', body: { task: TASK } },
    output: { type: 'json', example: { result: RESULT } },
  },
  schema: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    properties: {
      input: {
        type: 'object',
        properties: {
          type: { const: 'http' },
          method: { const: 'POST' },
          bodyType: { const: 'json' },
          body: bodySchema,
        },
        required: ['type', 'method', 'bodyType', 'body'],
      },
    },
    required: ['input'],
  },
}

/** The same for a tool of MCP. */
export function bazaarTool(toolName: string): object {
  const transport = 'streamable-http'
  const text = { type: 'string' }
  return {
    info: { input: { type: 'mcp', toolName, transport, inputSchema: bodySchema, example: { task: TASK } } },
    schema: {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      properties: {
        input: {
          type: 'object',
          properties: {
            ...{ type: { const: 'mcp' }, toolName: text, transport: { const: transport } },
            ...{ inputSchema: { type: 'object' }, example: { type: 'object' } },
          },
          required: ['type', 'toolName', 'inputSchema'],
        },
      },
      required: ['input'],
    },
  }
}

/** The same for catalogs and clients of x402 v1. */
export const v1OutputSchema = {
  input: {
    ...{ type: 'http', method: 'POST', discoverable: true, bodyType: 'json' },
    bodyFields: { task: { type: 'string', description: TASK, required: true } },
  },
  output: { result: { type: 'string', description: RESULT } },
}
