/* What may stand behind an agent instead of a model: programs and services of the operator. */
import * as z from 'zod'

const JSON_LENGTH_MAX = 32 * 1024
/** The longest schema of a task, as JSON, in characters. It is read with each start of the node. */
export const INPUT_SCHEMA_LENGTH_MAX = JSON_LENGTH_MAX

export const VariableName = z
  .string()
  .regex(/^[A-Z][A-Z0-9_]{0,127}$/, 'is the NAME of an environment variable, such as OPENAI_API_KEY')
export const Argv = z.array(z.string().min(1).max(4096)).min(1).max(64)
export const HttpUrl = z
  .string()
  .max(2048)
  .refine((text) => /^https?:$/.test(URL.parse(text)?.protocol ?? ''), 'is not an http(s) URL')
  .refine(
    (text) => !/^https?:\/\/[^/?#]*@/.test(text),
    'contains a user name or a password; this file never holds keys',
  )

/** A server of tools for a model: a local program, or a URL. Only the operator may set it (T12). */
export const ToolServer = z
  .strictObject({
    command: Argv.optional().meta({
      description: 'a program and its arguments; the program speaks MCP over standard input and output',
    }),
    url: HttpUrl.optional().meta({ description: 'URL of a server that speaks MCP over HTTP' }),
    tools: z
      .array(z.string().min(1).max(128))
      .min(1)
      .max(64)
      .optional()
      .meta({ description: 'tools of the server that the model may use; default: all' }),
    token_env: VariableName.optional().meta({ description: 'NAME of the variable that holds the token for `url`' }),
  })
  .refine(({ command, url }) => (command === undefined) !== (url === undefined), 'give either command or url')
  .refine(({ url, token_env }) => token_env === undefined || url !== undefined, 'token_env needs url')
export type ToolServer = z.infer<typeof ToolServer>

const InputSchema = z
  .record(z.string(), z.unknown())
  .refine(
    (schema) => JSON.stringify(schema).length <= INPUT_SCHEMA_LENGTH_MAX,
    `is longer than ${INPUT_SCHEMA_LENGTH_MAX} characters as JSON: leave out what need not be checked`,
  )
  .meta({ description: 'JSON Schema of the task; a task that does not fit is refused before anything is asked' })

/** One tool of an MCP server, sold as an agent. The task is the JSON object of its arguments. */
export const McpTool = z
  .strictObject({
    command: Argv.optional().meta({ description: 'the server as a program and its arguments; no shell' }),
    url: HttpUrl.optional().meta({ description: 'the server as a URL that speaks MCP over HTTP' }),
    tool: z.string().min(1).max(128).meta({ description: 'name of the tool, as the server lists it' }),
    input_schema: InputSchema.optional(),
  })
  .refine(({ command, url }) => (command === undefined) !== (url === undefined), 'give either command or url')
export type McpTool = z.infer<typeof McpTool>

export const operationMethods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
const FieldName = z
  .string()
  .min(1)
  .max(128)
  .refine((name) => name !== '__proto__', 'cannot be __proto__')
/** Headers that say how a request is sent or who sends it. No task fills them. */
const OWN_HEADER =
  /^(?:host|cookie|authorization|accept|content-.*|transfer-encoding|connection|keep-alive|upgrade|te|trailer|expect|forwarded|via|proxy-.*|x-forwarded-.*|x-real-ip|x-http-method.*|x-original-.*|x-rewrite-.*)$/i
const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/

export function isTaskHeader(name: string): boolean {
  return HEADER_NAME.test(name) && !OWN_HEADER.test(name)
}

const OperationParameter = z
  .strictObject({
    name: FieldName.meta({ description: 'name of the parameter in the request' }),
    in: z.enum(['path', 'query', 'header']),
    as: FieldName.optional().meta({ description: 'its key in the task; default: `name`' }),
    style: z
      .enum(['repeat', 'comma', 'deep', 'json'])
      .optional()
      .meta({ description: 'how a list or an object is written; default: `repeat` in a query, `comma` elsewhere' }),
  })
  .refine(({ in: place, name }) => place !== 'header' || isTaskHeader(name), 'is a header that no task may fill')
export type OperationParameter = z.infer<typeof OperationParameter>

const bodyTypes = ['json', 'form', 'text'] as const

/** The names between braces in the path of a URL. */
function pathNames(url: string): string[] {
  return [...url.matchAll(/\{([^{}]*)\}/g)].map(([, name]) => name!)
}

/** True if braces stand in the path alone, so that no task can choose a host or a query. */
function bracesInPath(url: string): boolean {
  const [, before = '', path = ''] = /^(https?:\/\/[^/?#]*)(.*)$/i.exec(url) ?? []
  return !/[{}]/.test(before) && !/[{}]/.test(path.replace(/\{[^{}]+\}/g, '')) && !/[?#]/.test(path)
}

/** One operation of an HTTP API, sold as an agent. The task is a JSON object of its parameters and its `body`. */
export const Operation = z
  .strictObject({
    method: z.enum(operationMethods),
    url: HttpUrl.refine(bracesInPath, 'has braces outside of the path, a query or a fragment').meta({
      description: 'URL of the operation; `{name}` in the path is a parameter',
    }),
    parameters: z.array(OperationParameter).max(64).optional(),
    body: z
      .enum(bodyTypes)
      .optional()
      .meta({ description: 'how `body` of the task is sent; without it, nothing is sent' }),
    key: z
      .strictObject({
        in: z.enum(['header', 'query', 'basic']),
        name: z.string().min(1).max(128).regex(HEADER_NAME, 'is not the name of a header or of a parameter').optional(),
      })
      .optional()
      .meta({ description: 'where the value of `api_key_env` goes; default: `Authorization: Bearer …`' }),
    input_schema: InputSchema.optional(),
  })
  .refine(({ method, body }) => method !== 'GET' || body === undefined, 'GET has no body')
  .refine(({ key }) => key === undefined || (key.in === 'basic') === (key.name === undefined), {
    path: ['key'],
    message: 'needs a name, and basic has none',
  })
  .superRefine(({ url, parameters = [], body }, context) => {
    const message = parameterTrouble(url, parameters, body !== undefined)
    if (message !== undefined) context.addIssue({ code: 'custom', path: ['parameters'], message })
  })
export type Operation = z.infer<typeof Operation>

function parameterTrouble(url: string, parameters: readonly OperationParameter[], hasBody: boolean) {
  const keys = parameters.map(({ name, as }) => as ?? name)
  if (hasBody) keys.push('body')
  const twice = keys.find((key, index) => keys.indexOf(key) !== index)
  if (twice !== undefined) return `two of them are ${twice} in the task: give one another name with as`
  const inPath = parameters.flatMap((one) => (one.in === 'path' ? [one.name] : []))
  const named = pathNames(url)
  const lost = inPath.find((name) => !named.includes(name)) ?? named.find((name) => !inPath.includes(name))
  return lost === undefined ? undefined : `${lost} is in the path of url and not a parameter, or the other way round`
}
