import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { NETWORK } from '../../devnet/chain.ts'
import { randomHash } from './signed-payment.ts'

/** A fault of one call. `settles`: the real facilitator is called first, so the money moves despite the fault. */
export type Fault = { settles?: boolean } & (
  | { kind: 'pass' }
  /** Calls the real facilitator once `until` resolves, and passes on its answer. */
  | { kind: 'late'; until: Promise<unknown> }
  /** 200 with success: false. */
  | { kind: 'refuse'; reason: string; message?: string; transaction?: string }
  /** Any status and body; an object is sent as JSON. */
  | { kind: 'status'; status: number; body?: string | object; headers?: Record<string, string> }
  /** Accepts the call and never answers, until `release()` or the stop of the server. */
  | { kind: 'hold' }
  /** 200 with text that is not JSON. */
  | { kind: 'garbage' }
  | { kind: 'empty' }
  /** A true answer that ends halfway, although the header announced the full length. */
  | { kind: 'truncated' }
  /** 200 with JSON whose fields all have the wrong type. */
  | { kind: 'wrong-types' }
  /** An answer that never ends. */
  | { kind: 'endless' }
  /**
   * 200, success: false, settlement_pending and a hash: the real hash if the payment settles, else `transaction` or an
   * unknown hash.
   */
  | { kind: 'pending'; transaction?: string }
  /** 200, success: true, transaction: "". */
  | { kind: 'empty-hash' }
  /** 200, success: true and the hash of another transaction. */
  | { kind: 'other-hash'; transaction: string }
  /** Closes the connection without an answer. */
  | { kind: 'drop' }
)

/** A call as received, and how the server handled it. */
export type FacilitatorCall = {
  operation: 'verify' | 'settle'
  body: { paymentPayload?: { payload?: { signature?: string; authorization?: { nonce?: string; from?: string } } } }
  fault: Fault['kind']
  /** The answer of the real facilitator, if it was called. */
  upstream?: Upstream
}

type Upstream = { status: number; body: Record<string, unknown> }

export type FaultyFacilitator = {
  readonly url: string
  /** Faults of the next /settle calls, in order. Later calls pass through. */
  readonly faults: Fault[]
  readonly verifyFaults: Fault[]
  /** Faults of one account's /settle calls, until the test removes the entry. The faults of `faults` come first. */
  readonly ofPayer: Map<string, () => Fault>
  readonly calls: readonly FacilitatorCall[]
  settles(): FacilitatorCall[]
  /** Drops all held calls. */
  release(): void
  stop(): Promise<void>
}

const CALLS_MAX = 100_000

/** A real HTTP server in front of the facilitator at `upstreamUrl`. It fails as the test tells it to. */
export async function startFaultyFacilitator(upstreamUrl: string, faults: Fault[] = []): Promise<FaultyFacilitator> {
  const verifyFaults: Fault[] = []
  const ofPayer = new Map<string, () => Fault>()
  const calls: FacilitatorCall[] = []
  const held = new Set<ServerResponse>()
  const stopping = new AbortController()

  async function forward(path: string, text: string): Promise<Upstream> {
    const response = await fetch(`${upstreamUrl}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: text,
      signal: stopping.signal,
    })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? '/'
    if (path === '/supported') {
      const supported = await fetch(`${upstreamUrl}${path}`, { signal: stopping.signal })
      response.writeHead(supported.status, { 'content-type': 'application/json' })
      response.end(await supported.text())
      return
    }
    const text = await readText(request)
    const operation = path === '/verify' ? 'verify' : 'settle'
    const queue = operation === 'verify' ? verifyFaults : faults
    const body: FacilitatorCall['body'] = JSON.parse(text)
    const payer = body.paymentPayload?.payload?.authorization?.from?.toLowerCase() ?? ''
    const ofThisPayer = operation === 'settle' ? ofPayer.get(payer)?.() : undefined
    const fault: Fault = queue.shift() ?? ofThisPayer ?? { kind: 'pass' }
    const call: FacilitatorCall = { operation, body, fault: fault.kind }
    if (calls.push(call) > CALLS_MAX) calls.shift()
    if (fault.kind === 'late') await fault.until
    if (fault.kind === 'pass' || fault.kind === 'late' || fault.kind === 'truncated' || fault.settles === true) {
      call.upstream = await forward(path, text)
    }
    respond(response, fault, call.upstream)
  }

  function respond(response: ServerResponse, fault: Fault, upstream: Upstream | undefined): void {
    if (fault.kind === 'drop') response.destroy()
    else if (fault.kind === 'endless') pour(response)
    else if (fault.kind === 'hold') {
      held.add(response)
      response.once('close', () => held.delete(response))
    } else {
      const { status, text, headers } = answerOf(fault, upstream)
      const length = Buffer.byteLength(text)
      response.writeHead(status, { 'content-type': 'application/json', 'content-length': length, ...headers })
      if (fault.kind === 'truncated') response.write(text.slice(0, length / 2), () => response.destroy())
      else response.end(text)
    }
  }

  const server = createServer((request, response) => {
    serve(request, response).catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const release = () => {
    for (const response of held) response.destroy()
  }
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    faults,
    verifyFaults,
    ofPayer,
    calls,
    settles: () => calls.filter((call) => call.operation === 'settle'),
    release,
    stop: () =>
      new Promise((resolve) => {
        stopping.abort()
        release()
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

type Answer = { status: number; text: string; headers?: Record<string, string> | undefined }
type AnsweringFault = Exclude<Fault, { kind: 'drop' | 'endless' | 'hold' }>

function answerOf(fault: AnsweringFault, upstream: Upstream | undefined): Answer {
  const ok = (body: object): Answer => ({ status: 200, text: JSON.stringify(body) })
  const failure = { success: false, transaction: '', network: NETWORK }
  switch (fault.kind) {
    case 'pass':
    case 'late':
    case 'truncated':
      return { status: upstream?.status ?? 500, text: JSON.stringify(upstream?.body ?? {}) }
    case 'refuse': {
      const { reason: errorReason, message: errorMessage, transaction = '' } = fault
      return ok({ ...failure, errorReason, errorMessage, transaction })
    }
    case 'status': {
      const text = typeof fault.body === 'object' ? JSON.stringify(fault.body) : (fault.body ?? '')
      return { status: fault.status, text, headers: fault.headers }
    }
    case 'garbage':
      return { status: 200, text: '<html>Bad gateway \u0000\u001b[31m</html>' }
    case 'empty':
      return { status: 200, text: '' }
    case 'wrong-types':
      return ok({ success: 'yes', transaction: 7, network: null, payer: [], errorReason: {} })
    case 'pending': {
      const transaction = upstream?.body.transaction ?? fault.transaction ?? randomHash()
      return ok({ ...failure, errorReason: 'settlement_pending', transaction })
    }
    case 'empty-hash':
      return ok({ success: true, transaction: '', network: NETWORK })
    case 'other-hash':
      return ok({ success: true, transaction: fault.transaction, network: NETWORK })
  }
}

function pour(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/json' })
  const spaces = Buffer.alloc(64 * 1024, ' ')
  const more = () => {
    while (!response.destroyed && response.write(spaces));
  }
  response.on('drain', more)
  more()
}

async function readText(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}
