import type { McpOffer } from '../../agents/services/mcp-tools.ts'
import type { ApiOperation } from '../../agents/services/openapi.ts'
import { isObject, type JsonObject, wordsOnly } from '../../agents/services/plain-schema.ts'
import { sampleTask, taskText } from '../../agents/services/sample-task.ts'
import { bareHost } from '../../lib/bare-host.ts'
import { isPublicAddress } from '../../lib/public-address.ts'
import { X402_EXTENSION } from '../../schema/a2a.ts'
import { type McpTool, Operation } from '../../schema/agent-service.ts'
import { DESCRIPTION_LENGTH_MAX, NAME_LENGTH_MAX } from '../../schema/limits.ts'
import type { Offer, Service } from './service.ts'

const DESCRIPTION_KEPT = DESCRIPTION_LENGTH_MAX - 2_000

/** The tools of an MCP server. @param runs how the server is reached */
export function mcpOffers(offer: McpOffer, runs: Omit<McpTool, 'tool' | 'input_schema'>): Service {
  const offers = offer.tools.flatMap((one): Offer[] => {
    if (one.problem !== undefined || one.schema === undefined) return []
    const { tool, title, description, isReadOnly, schema } = one
    return [
      {
        ...{ key: tool, name: nameOf(title, tool), tags: ['mcp'], isReadOnly, needsKey: false },
        description: describe(description || title, schema),
        runs: { mcp_tool: { ...runs, tool, input_schema: schema } },
        sample: sampleTask(schema),
      },
    ]
  })
  const named = [titleOf(offer.name), offer.version].filter(Boolean).join(' ')
  const unsold = offer.tools.flatMap(({ tool, problem }) => (problem === undefined ? [] : [{ key: tool, problem }]))
  const count = offer.tools.length === 1 ? '1 tool' : `${offer.tools.length} tools`
  const what = `an MCP server${named === '' ? '' : `, ${named}`}, protocol ${offer.protocol}, with ${count}`
  return { kind: 'mcp', what, notes: [], offers, unsold }
}

/**
 * The operations of an OpenAPI document.
 * @param given.server the seller's own word on where calls go
 */
export function apiOffers(
  document: JsonObject,
  operations: readonly ApiOperation[],
  given: { from: string | undefined; server: string | undefined },
): Service {
  const offers: Offer[] = []
  const unsold: Service['unsold'] = []
  const unconfirmed = new Set<string>()
  for (const one of operations) {
    const server = given.server ?? one.server
    if (given.server === undefined && one.server !== undefined && !isExpected(one.server, given.from))
      unconfirmed.add(one.server)
    const made = 'problem' in one.found ? one.found : placed(one.found.operation, server)
    if ('problem' in made) unsold.push({ key: one.key, problem: made.problem })
    else offers.push(apiOffer(one, made.operation))
  }
  const info = isObject(document.info) ? document.info : {}
  const named = [info.title, info.version].map((text) => (typeof text === 'string' ? titleOf(text) : '')).join(' ')
  const count = operations.length === 1 ? '1 operation' : `${operations.length} operations`
  const servers = [...new Set(operations.flatMap((one) => given.server ?? one.server ?? []))].slice(0, 3)
  return {
    kind: 'openapi',
    what: `an OpenAPI document, ${named.trim() || 'without a title'}, with ${count}`,
    notes: servers.map((server) => `calls go to ${wordsOnly(server, 200)}`),
    offers,
    unsold,
    ...(unconfirmed.size > 0 && { server: [...unconfirmed].map((server) => wordsOnly(server, 200)).join(', ') }),
  }
}

function apiOffer(one: ApiOperation, operation: Operation & { input_schema: JsonObject }): Offer {
  const tags = [...new Set(['api', ...one.tags.map((tag) => tag.toLowerCase())])]
  return {
    ...{ key: one.key, name: nameOf(one.title, one.key), tags, needsKey: one.needsKey },
    description: describe(one.description, operation.input_schema),
    runs: { operation },
    isReadOnly: operation.method === 'GET',
    sample: sampleTask(operation.input_schema),
  }
}

function placed(operation: Operation & { input_schema: JsonObject }, server: string | undefined) {
  if (server === undefined) return { problem: 'the document names no server: give --server <url>' }
  const parsed = Operation.safeParse({ ...operation, url: `${server.replace(/\/+$/, '')}${operation.url}` })
  if (!parsed.success) {
    const { path, message } = parsed.error.issues[0]!
    return { problem: `${path.join('.')} ${message}`.trim() }
  }
  return { operation: { ...parsed.data, input_schema: operation.input_schema } }
}

/** True for the host that the document came from. A file may name any host of the open internet. */
function isExpected(server: string, from: string | undefined): boolean {
  const url = URL.parse(server)
  if (url === null) return false
  if (from !== undefined) return url.origin === new URL(from).origin
  const host = bareHost(url.hostname)
  const isNamed = /\.[a-z][a-z0-9-]*$/i.test(host) && !/\.(?:local|localhost|internal|lan|home|arpa)$/i.test(host)
  return isNamed || isPublicAddress(host)
}

/** A remote agent, by its card. */
export function a2aOffer(card: JsonObject, url: string): Service {
  const skills = (Array.isArray(card.skills) ? card.skills : []).filter(isObject)
  const text = (value: unknown, max: number) => (typeof value === 'string' ? wordsOnly(value, max) : '')
  const title = typeof card.name === 'string' ? titleOf(card.name) : ''
  const example = skills
    .flatMap(({ examples }) => (Array.isArray(examples) ? examples : []))
    .find((one) => typeof one === 'string')
  const extensions =
    isObject(card.capabilities) && Array.isArray(card.capabilities.extensions) ? card.capabilities.extensions : []
  const isPaid = extensions.some((one) => isObject(one) && one.uri === X402_EXTENSION && one.required === true)
  const offer: Offer = {
    ...{ key: title || 'agent', name: nameOf(title, 'Remote agent'), isReadOnly: false, needsKey: false },
    description: describe(text(card.description, DESCRIPTION_KEPT) || title || 'A remote agent.'),
    tags: ['a2a'],
    runs: { a2a: url },
    sample: example === undefined ? undefined : wordsOnly(example as string, 2_000),
  }
  const notes = isPaid ? ['it wants to be paid itself: --max-price is the most that one run may pay it'] : []
  return { kind: 'a2a', what: `an A2A agent, ${title || 'without a name'}`, notes, offers: [offer], unsold: [] }
}

/** A server with the API of OpenAI: an agent for each model that is chosen. */
export function modelOffers(models: readonly string[], baseUrl: string): Service {
  const offers = models.map((model): Offer => {
    const shown = wordsOnly(model, NAME_LENGTH_MAX)
    return {
      ...{ key: model, name: nameOf(shown, 'Model'), tags: ['llm'], isReadOnly: true, needsKey: false },
      description: `Answers any task with the language model ${shown}.`,
      runs: { model: `openai-compatible/${model}`, model_url: baseUrl },
      sample: 'Answer with the word yes.',
    }
  })
  const count = models.length === 1 ? '1 model' : `${models.length} models`
  return { kind: 'openai', what: `a server with the API of OpenAI and ${count}`, notes: [], offers, unsold: [] }
}

/** A service that is known only by its address. */
export function plainOffer(url: URL): Service {
  const offer: Offer = {
    ...{ key: url.hostname, name: nameOf(url.hostname, 'Service'), description: '', tags: [], needsKey: false },
    ...{ runs: { http: url.href }, isReadOnly: false, sample: undefined },
  }
  const what = 'an HTTP service: each task is the body of a POST, and the body of the answer is the result'
  return { kind: 'http', what, notes: [], offers: [offer], unsold: [] }
}

/** The text of the service, and what a task is. */
function describe(text: string, schema?: JsonObject): string {
  const said = wordsOnly(text, DESCRIPTION_KEPT)
  if (schema === undefined) return said
  return `${/[.!?…]$/.test(said) ? said : `${said}.`} ${wordsOnly(taskText(schema), 1_900)}`
}

function nameOf(title: string, instead: string): string {
  const name = titleOf(title)
  return /[\p{L}\p{N}]/u.test(name) ? name : titleOf(instead)
}

/** Many titles are sentences, and a name has no full stop at its end. */
function titleOf(text: string): string {
  return wordsOnly(text, NAME_LENGTH_MAX)
    .replace(/[.。]+$/u, '')
    .trimEnd()
}
