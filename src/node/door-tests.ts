import { bareHost } from '../lib/bare-host.ts'
import type { Clock, UnixMs } from '../lib/clock.ts'
import { isoTime } from '../lib/clock.ts'
import { type Finding, fail, ok, skip, warn } from '../lib/finding.ts'
import { type Glance, type GlanceOptions, glance } from '../lib/glance.ts'
import { isPublicAddress } from '../lib/public-address.ts'
import type { ListedTerms } from '../payments/requirements.ts'
import { seenTerms } from '../protocols/doors/seen-terms.ts'
import type { Door } from '../schema/door.ts'
import type { Doors, DoorTest, DoorTests as Report } from '../schema/doors.ts'

type Way = Pick<Doors['doors'][number], 'open' | 'url' | 'agents'>

type DoorTestsDeps = {
  clock: Clock
  places(): Record<Door, Way>
  /** What the listing of an own agent asks. Undefined: it is not on the market. */
  listedTerms(agentId: string): ListedTerms | undefined
  /** Lets peers ask the address of an agent. Never throws. */
  askPeers(agentId: string, url: string, signal: AbortSignal): Promise<Finding>
  /** Certificates to trust instead of those of the system. */
  ca?: string | undefined
}

/** Agents whose addresses are tested. */
const AGENTS_MAX = 20
const ASK_MS_MAX = 3_000
/** A test within this time after another one gets its outcome. */
const FRESH_MS = 3_000
const CERTIFICATE_DAYS_MIN = 14
const BODY_BYTES_MAX = 64 * 1024
const DAY_MS = 24 * 60 * 60 * 1000

const PROXY =
  'let the proxy pass the path on to public.port unchanged, with all headers (docs/doors.md, Behind a proxy)'
const HTTPS = 'put a proxy with TLS before it, and set public.url to its https address (docs/doors.md, Behind a proxy)'
const AWAY =
  'see that the name, the proxy and the firewall lead to public.port; some routers do not let a machine reach its own public address'
const CERTIFICATE =
  'renew the certificate of the proxy or of public.tls_cert, with the chain up to an authority that every client knows'

/** Asks the addresses that this node gives to clients, as a client would. Pays nothing, and runs no agent. */
export class DoorTests {
  readonly #deps: DoorTestsDeps
  #last: { at: UnixMs; report: Report } | undefined
  #running: Promise<Report> | undefined

  constructor(deps: DoorTestsDeps) {
    this.#deps = deps
  }

  /** What was found last. */
  last = (): Report | undefined => this.#last?.report

  /** Tests now, within 3 s. Callers at the same time share one test, which goes on when one of them leaves. */
  run = (): Promise<Report> => {
    const { clock } = this.#deps
    if (this.#last !== undefined && Math.abs(clock.now() - this.#last.at) < FRESH_MS) {
      return Promise.resolve(this.#last.report)
    }
    this.#running ??= this.#test(AbortSignal.timeout(ASK_MS_MAX)).finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  async #test(signal: AbortSignal): Promise<Report> {
    const { clock, places } = this.#deps
    const { http, a2a, mcp } = places()
    const looks = [
      ...http.agents.slice(0, AGENTS_MAX).map((agent) => this.#http(agent, signal)),
      ...a2a.agents.slice(0, AGENTS_MAX).map((agent) => this.#a2a(agent, signal)),
      ...this.#outside(http, signal),
      ...(mcp.open ? [this.#mcp(mcp.url!, mcp.agents.length, signal)] : []),
    ]
    const tests = await Promise.all(looks)
    const at = clock.now()
    this.#last = { at, report: { at: isoTime(at), tests } }
    return this.#last.report
  }

  async #http({ agent_id, url }: Way['agents'][number], signal: AbortSignal): Promise<DoorTest> {
    const listed = this.#deps.listedTerms(agent_id)
    const isFree = listed?.amount === 0n
    const request = isFree ? { method: 'GET' as const } : { method: 'POST' as const, headers: JSON_BODY }
    const seen = await this.#ask(url, { ...request, bodyBytesMax: 0 }, signal)
    const finding = this.#judge(seen, url, (answer) => {
      if (listed === undefined) return skip('the agent is not on the market yet, so there is nothing to compare with')
      if (answer.status === 429 || answer.status === 503) return warn('is busy: no price was asked', 'test again later')
      if (isFree) return answer.status === 200 ? ok('answers, and is free') : otherAnswer(answer, '200')
      if (answer.status !== 402) return otherAnswer(answer, '402')
      const { difference, isForCatalogs } = seenTerms(headerOf(answer), url, listed)
      if (difference !== undefined) return fail(`the answer ${difference}`, PROXY)
      if (!isForCatalogs) return warn('the answer has no declaration for catalogs of x402', PROXY)
      return ok('answers 402 with the price of the listing')
    })
    return { ...{ door: 'http', from: 'here', agent_id, url }, ...finding }
  }

  async #a2a({ agent_id, url }: Way['agents'][number], signal: AbortSignal): Promise<DoorTest> {
    const card = `${url}/.well-known/agent-card.json`
    const seen = await this.#ask(card, { method: 'GET', bodyBytesMax: BODY_BYTES_MAX }, signal)
    const finding = this.#judge(seen, url, (answer) => {
      if (answer.status !== 200) return otherAnswer(answer, '200')
      return answer.body.includes(JSON.stringify(url).slice(1, -1))
        ? ok('its card names this address')
        : fail('its card names another address', PROXY)
    })
    return { ...{ door: 'a2a', from: 'here', agent_id, url }, ...finding }
  }

  async #mcp(url: string, agents: number, signal: AbortSignal): Promise<DoorTest> {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} })
    const headers = { ...JSON_BODY, accept: 'application/json, text/event-stream' }
    const seen = await this.#ask(url, { method: 'POST', headers, body, bodyBytesMax: BODY_BYTES_MAX }, signal)
    const finding = this.#judge(seen, url, (answer) => {
      if (answer.status !== 200) return otherAnswer(answer, '200')
      if (!answer.body.includes('"tools"')) return fail('does not list its tools', PROXY)
      return ok(`lists its tools: ${agents} ${agents === 1 ? 'agent' : 'agents'}`)
    })
    return { ...{ door: 'mcp', from: 'here', url }, ...finding }
  }

  /** One paid agent is enough: the others have the same name, proxy and certificate. */
  #outside(place: Way, signal: AbortSignal): Promise<DoorTest>[] {
    const { agents, open } = place
    if (!open) return []
    const paid = agents.find(({ agent_id }) => (this.#deps.listedTerms(agent_id)?.amount ?? 0n) > 0n)
    const url = paid?.url ?? place.url!
    const about = { door: 'http', from: 'peers', ...(paid !== undefined && { agent_id: paid.agent_id }), url } as const
    const asked =
      paid === undefined
        ? Promise.resolve(skip('not seen from outside: no paid agent is on the market'))
        : this.#deps.askPeers(paid.agent_id, url, signal)
    return [asked.then((finding) => ({ ...about, ...finding }))]
  }

  #ask(url: string, options: Omit<GlanceOptions, 'signal' | 'ca'>, signal: AbortSignal): Promise<Glance> {
    return glance(new URL(url), { ...options, ca: this.#deps.ca, signal })
  }

  /** What holds for every address: it answers, over TLS, with a certificate that is good for a while. */
  #judge(seen: Glance, url: string, look: (answer: Answer) => Finding): Finding {
    if (seen.kind === 'tls') return fail(`its TLS is refused: ${seen.reason}`, CERTIFICATE)
    if (seen.kind !== 'answered') return warn(`cannot be reached from here: ${seen.reason}`, AWAY)
    const found = look(seen)
    if (found.state !== 'ok') return found
    const { hostname } = new URL(url)
    if (seen.certificateEndsAt === undefined) {
      const isLocal =
        hostname === 'localhost' || (/^[0-9.]+$|^\[/.test(hostname) && !isPublicAddress(bareHost(hostname)))
      const reason = isLocal
        ? 'nobody outside this network reaches this address: public.url is not set to one outside'
        : 'over plain http: anybody between can change the terms, and clients refuse to pay'
      return warn(`${found.text}, but ${reason}`, HTTPS)
    }
    const days = Math.floor((seen.certificateEndsAt - this.#deps.clock.now()) / DAY_MS)
    const text = `${found.text}; its certificate is valid for ${days} more ${days === 1 ? 'day' : 'days'}`
    return days < CERTIFICATE_DAYS_MIN ? warn(text, CERTIFICATE) : ok(text)
  }
}

type Answer = Extract<Glance, { kind: 'answered' }>

const JSON_BODY = { 'content-type': 'application/json' } as const

function headerOf({ headers }: Answer): string | undefined {
  return [headers['payment-required']].flat()[0]
}

function otherAnswer({ status, headers }: Answer, wanted: string): Finding {
  const isMoved = status >= 300 && status < 400 && headers.location !== undefined
  return fail(`answers ${status} and not ${wanted}${isMoved ? ': clients do not follow redirects' : ''}`, PROXY)
}

/** The tests as the doctor shows them: one line for all that passed, and one for all with the same state and fix. */
export function findingsOf({ tests }: Report): Finding[] {
  if (tests.length === 0) return [skip('none: strangers buy nothing here')]
  const right = tests.filter(({ state }) => state === 'ok')
  const others = tests.filter((one) => one.state !== 'ok')
  const alike = (one: DoorTest) =>
    others.filter(({ state, fix }) => fix !== undefined && state === one.state && fix === one.fix)
  const here = right.filter(({ from }) => from === 'here').length
  return [
    ...(here === 0
      ? []
      : [ok(`${here} of ${tests.filter(({ from }) => from === 'here').length} answer as clients expect`)]),
    ...right.filter(({ from }) => from === 'peers').map(({ url, text }) => ok(`${url} from outside: ${text}`)),
    ...others.flatMap((one) => {
      const { url, from, state, text, fix } = one
      const [first = one, ...more] = alike(one)
      if (first !== one) return []
      const rest = more.length === 0 ? '' : `; ${more.length} more with the same fix: stoa doors --test`
      return [
        {
          ...{ state, text: `${url}${from === 'peers' ? ' from outside' : ''}: ${text}${rest}` },
          ...(fix !== undefined && { fix }),
        },
      ]
    }),
  ]
}
