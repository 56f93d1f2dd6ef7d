import { readFile, stat } from 'node:fs/promises'
import { modelsOf } from '../../agents/model-server.ts'
import { apiOperations, openApiVersion } from '../../agents/services/openapi.ts'
import { isObject, type JsonObject, wordsOnly } from '../../agents/services/plain-schema.ts'
import { parseYamlValue } from '../../config/yaml-value.ts'
import { CodedError, reasonOf } from '../../lib/errors.ts'
import { boundedText } from '../../lib/http.ts'
import { parseJson, UNLIMITED } from '../../lib/json.ts'
import { CliError, UsageError } from '../exit-code.ts'
import { a2aOffer, apiOffers, mcpOffers, modelOffers, plainOffer } from './offers.ts'
import { type Service, type ServiceKind, serviceKinds, type Target } from './service.ts'

/** The largest document that is read, in bytes, and the time for one look. */
const DOCUMENT_BYTES_MAX = 8 * 1024 * 1024
const LOOK_MS_MAX = 15_000
const ANSWER_BYTES_MAX = 1024 * 1024

type FindOptions = {
  /** Look for this kind only. */
  as: ServiceKind | undefined
  /** Where the operations of a document are, by the seller's word. */
  server: string | undefined
  /** Sent to the host of the target only. */
  token: string | undefined
}
type FindDeps = { fetch: typeof fetch; readEnv(name: string): string | undefined; signal: AbortSignal }

/**
 * Finds out what a target is: the first kind that answers as such. A plain HTTP service is what answers as none of them.
 * Follows no redirect. @throws UsageError, CliError
 */
export async function findService(target: Target, options: FindOptions, deps: FindDeps): Promise<Service> {
  if ('program' in target) {
    if (options.as !== undefined && options.as !== 'mcp')
      throw new UsageError(`--as ${options.as}: a program after -- is an MCP server`)
    return mcpService({ command: [...target.program] }, options, deps).catch((error: unknown) => {
      throw notServed(target.program, error, deps.signal)
    })
  }
  if ('file' in target) return fromFile(target.file, options)
  return fromUrl(target.url, options, deps)
}

async function fromFile(file: string, { as, server }: FindOptions): Promise<Service> {
  if (as !== undefined && as !== 'openapi') throw new UsageError(`--as ${as}: a file is an OpenAPI document`)
  const { size } = await stat(file)
  if (size > DOCUMENT_BYTES_MAX) throw new UsageError(`${file} is larger than ${DOCUMENT_BYTES_MAX / 1024 / 1024} MiB`)
  const document = documentOf(await readFile(file, 'utf8'))
  return apiService(document, file, { from: undefined, server })
}

async function fromUrl(url: URL, options: FindOptions, deps: FindDeps): Promise<Service> {
  const { as } = options
  const tried: string[] = []
  for (const kind of serviceKinds.filter((one) => as === undefined || as === one)) {
    const found = await looks[kind](url, options, deps).catch((error: unknown) => failed(error, deps.signal))
    if (!('problem' in found)) {
      if (kind === 'http' && as === undefined) found.notes.unshift(`it is ${tried.join(', ')}`)
      return found
    }
    if (as !== undefined) throw new UsageError(`--as ${as}: ${found.problem}`)
    tried.push(`no ${names[kind]} (${found.problem})`)
  }
  throw new UsageError(`nothing was found at ${shown(url)}`)
}

const names: Record<ServiceKind, string> = {
  a2a: 'A2A agent',
  openapi: 'OpenAPI document',
  mcp: 'MCP server',
  openai: 'server with the API of OpenAI',
  http: 'HTTP service',
}

type Look = (url: URL, options: FindOptions, deps: FindDeps) => Promise<Service | { problem: string }>

const looks: Record<ServiceKind, Look> = {
  async a2a(url, { token }, deps) {
    const base = url.href.replace(/\/+$/, '')
    const places = url.pathname.endsWith('.json')
      ? [url.href]
      : [`${base}/.well-known/agent-card.json`, `${base}/.well-known/agent.json`]
    let problem = 'no card'
    for (const place of places) {
      const answer = await look(place, token, deps)
      if (!('text' in answer)) problem = answer.problem
      const card = 'text' in answer ? parseJson(answer.text, UNLIMITED) : undefined
      if (isCard(card)) return a2aOffer(card, url.href)
    }
    return { problem }
  },
  async openapi(url, { server }, deps) {
    const answer = await look(url.href, undefined, deps)
    if (!('text' in answer)) return answer
    const document = documentOf(answer.text)
    if (!isObject(document) || (document.openapi === undefined && document.swagger === undefined))
      return { problem: 'it answers with something else' }
    return apiService(document, shown(url), { from: url.href, server })
  },
  mcp: (url, options, deps) => mcpService({ url: url.href }, options, deps),
  async openai(url, { token }, deps) {
    const base = url.href.replace(/\/+$/, '')
    const places = url.pathname === '/' ? [`${base}/v1`, base] : [base]
    let problem = 'no list of models'
    for (const baseUrl of places) {
      const found = await modelsOf(deps.fetch, { baseUrl, key: token }, deps.signal)
      if ('models' in found) {
        if (found.models.length > 0) return modelOffers(found.models, baseUrl)
        return { problem: 'it has no models' }
      }
      problem = found.problem
    }
    return { problem: wordsOnly(problem, 200) }
  },
  async http(url, _options, deps) {
    const answer = await look(url.href, undefined, deps)
    if ('location' in answer) throw new UsageError(answer.problem)
    return plainOffer(url)
  },
}

async function mcpService(
  server: { command: string[] } | { url: string },
  { token }: FindOptions,
  { fetch, readEnv, signal }: FindDeps,
): Promise<Service> {
  const { offeredTools } = await import('../../agents/services/mcp-tools.ts')
  const access = { command: undefined, url: undefined, ...server, token, outputBytesMax: ANSWER_BYTES_MAX }
  const limit = AbortSignal.any([signal, AbortSignal.timeout(2 * LOOK_MS_MAX)])
  const offer = await offeredTools(access, { fetch, readEnv }, limit)
  if (offer.tools.length === 0) throw new UsageError('the MCP server has no tools')
  return mcpOffers(offer, server)
}

function apiService(document: unknown, where: string, given: { from: string | undefined; server: string | undefined }) {
  if (!isObject(document) || openApiVersion(document) === undefined) {
    const version = isObject(document) ? (document.openapi ?? document.swagger) : undefined
    const is = version === undefined ? 'no OpenAPI document' : `OpenAPI ${wordsOnly(String(version), 20)}`
    throw new UsageError(`${where} is ${is}: expected OpenAPI 3.0 to 3.2 as JSON or YAML`)
  }
  const operations = apiOperations(document, given.from)
  if (operations.length === 0) throw new UsageError(`${where} has no operations`)
  return apiOffers(document, operations, given)
}

/** JSON or YAML. Undefined if it is neither. */
function documentOf(text: string): unknown {
  // Documents of large services have hundreds of thousands of values, and only this command waits.
  const json = parseJson(text, UNLIMITED)
  if (json !== undefined) return json
  try {
    return parseYamlValue(text)
  } catch {
    return undefined
  }
}

function isCard(value: unknown): value is JsonObject {
  const names = isObject(value) && typeof value.name === 'string' && Array.isArray(value.skills)
  return names && (typeof value.url === 'string' || Array.isArray(value.supportedInterfaces))
}

type Looked = { text: string } | { problem: string } | { problem: string; location: string }

async function look(url: string, token: string | undefined, { fetch, signal }: FindDeps): Promise<Looked> {
  const headers = {
    accept: 'application/json, application/yaml, text/yaml, */*;q=0.5',
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
  }
  const limit = AbortSignal.any([signal, AbortSignal.timeout(LOOK_MS_MAX)])
  const response = await fetch(url, { headers, redirect: 'manual', signal: limit })
  if (response.ok) {
    const text = await boundedText(response, DOCUMENT_BYTES_MAX)
    return text === undefined ? { problem: 'its answer is too large' } : { text }
  }
  await response.body?.cancel()
  const location = response.status >= 300 && response.status < 400 ? response.headers.get('location') : null
  if (location === null) return { problem: `HTTP ${response.status}` }
  const to = wordsOnly(URL.parse(location, url)?.href ?? location, 200)
  return { problem: `it leads to ${to}: name that address, if you trust it`, location: to }
}

/** A program that does not start, or does not speak MCP, is a mistake of the command, mostly. */
function notServed([program = '']: readonly string[], error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted || error instanceof CodedError) return error
  const { code, syscall } = error as NodeJS.ErrnoException
  const name = wordsOnly(program, 200)
  if (syscall?.startsWith('spawn') === true) return new UsageError(`the program ${name} cannot be started: ${code}`)
  const reason = wordsOnly(reasonOf(error), 200)
  const again = /timed out/i.test(reason) ? '. If it was still being installed, as npx does, run the command again' : ''
  return new UsageError(
    `${name} is no MCP server: ${reason}${again}. A program that reads the task on standard input ` +
      'is sold by stoa agent config add --command',
  )
}

/** A look that fails says why. Nobody there at all ends the search. */
function failed(error: unknown, signal: AbortSignal): { problem: string } {
  signal.throwIfAborted()
  if (error instanceof UsageError) throw error
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code === 'ADDRESS_REFUSED') throw new UsageError(cause.message)
    if (
      code !== undefined &&
      /^(?:ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ERR_TLS.*|.*CERT.*)$/.test(code)
    ) {
      throw new CliError(
        'SERVICE_UNREACHABLE',
        `nothing answers there (${code}): check the address, and that the service runs`,
      )
    }
  }
  return { problem: wordsOnly(reasonOf(error), 200) }
}

/** An address without its query, which may hold a key. */
function shown(url: URL): string {
  return `${url.origin}${url.pathname}`
}
