/* By hand: libp2p's module speaks one version of UPnP, believes any host and leaves ports open (ADR-16). */

import { isIPv4 } from 'node:net'
import { isPrivateIp } from '@libp2p/utils'
import type { Multiaddr } from '@multiformats/multiaddr'
import { reasonOf } from '../../lib/errors.ts'
import type { Logger } from '../../lib/logger.ts'
import { idle } from '../../lib/wait.ts'
import { transportOf } from '../multiaddrs.ts'
import { sendsThrough } from './default-routers.ts'
import {
  addMapping,
  deleteMapping,
  externalHost,
  mappedTo,
  type PortMap,
  type Router,
  RouterRefusal,
  readRouter,
} from './router.ts'
import { searchRouters } from './ssdp.ts'

/** Lease of a mapping. It is renewed long before its end, because a restarted router has forgotten everything. */
const LEASE_S = 3600
/** Ports tried in a row. Another node in the same household may hold the first. */
const PORTS_TRIED = 8
const ROUTERS_MAX = 4
const GIVE_BACK_MS_MAX = 1000
const CONFLICTS = [718, 729]
const ONLY_WITHOUT_LEASE = 725

export type PortMappingTiming = {
  /** How often to check whether it is time to ask again, or whether this machine's addresses changed. */
  mapLookMs: number
  /** How often the router is asked again. */
  mapEveryMs: number
  /** The same while no router forwards a port. */
  mapRetryMs: number
  /**
   * Time for all requests to one router. Each request may be slow, and the next router must not wait for all of them.
   */
  mapRouterMs: number
}

/** The result of asking the router. `says` is a sentence for the operator. */
export type Forwarding = { state: 'asking' | 'mapped' | 'failed'; says: string }

/** A port of this node, and the public address and port that the router forwards to it. */
export type PublicPort = PortMap & { externalHost: string }

export type PortMappingDeps = {
  logger: Logger
  listening(): readonly Multiaddr[]
  /** Called with the forwarded ports, each time they change. */
  mapped(ports: readonly PublicPort[]): void
  /** Where routers describe themselves. By default this searches the local networks. */
  search?(signal: AbortSignal): Promise<readonly URL[]>
  /** True if this machine sends through the router. By default the machine's routes decide. */
  sendsThrough?(router: URL): Promise<boolean>
}

/** Makes the router forward the peer port by UPnP, keeps the mapping alive, and removes it at the end. */
export class PortMapping {
  readonly #timing: PortMappingTiming
  readonly #deps: PortMappingDeps
  #router: Router | undefined
  #made: PortMap[] = []
  #told = ''
  #forwarding: Forwarding = { state: 'asking', says: 'the router is being asked to pass the port on (UPnP)' }

  constructor(timing: PortMappingTiming, deps: PortMappingDeps) {
    this.#timing = timing
    this.#deps = deps
  }

  state(): Forwarding {
    return this.#forwarding
  }

  /** Runs until the signal aborts, and then until the mappings are removed. */
  async run(signal: AbortSignal): Promise<void> {
    let againAt = 0
    let before = ''
    do {
      const now = this.#deps.listening().join()
      if (performance.now() < againAt && now === before) continue
      before = now
      await this.#ask(signal)
      const { mapEveryMs, mapRetryMs } = this.#timing
      againAt = performance.now() + (this.#forwarding.state === 'mapped' ? mapEveryMs : mapRetryMs)
    } while (await idle(this.#timing.mapLookMs, signal))
    await this.#giveBack(AbortSignal.timeout(GIVE_BACK_MS_MAX))
  }

  async #ask(signal: AbortSignal): Promise<void> {
    const known = this.#forwarding.state === 'mapped' ? this.#router : undefined
    const isOwn = known !== undefined && (await (this.#deps.sendsThrough ?? sendsThrough)(known.control))
    let result = isOwn ? await this.#useAgain(known, signal) : undefined
    result ??= await this.#find(signal)
    // No router on the current route forwards the port. Try the earlier router again.
    if (known !== undefined && !isOwn && result.state !== 'mapped')
      result = (await this.#useAgain(known, signal)) ?? result
    if (signal.aborted) {
      // Remember the router, so that its mappings are removed.
      this.#router ??= known
      return
    }
    const isNews = result.says !== this.#forwarding.says
    this.#forwarding = result
    if (!isNews) return
    if (result.state === 'mapped') this.#deps.logger.info({}, result.says)
    else this.#deps.logger.warn({}, `UPnP does not work here: ${result.says}`)
  }

  /** Undefined if the router does not answer any more. */
  async #useAgain(router: Router, signal: AbortSignal): Promise<Forwarding | undefined> {
    try {
      const result = await this.#use(router, signal)
      this.#router = router
      return result
    } catch (error) {
      this.#deps.logger.debug({ err: error }, 'the router does not answer any more')
      return undefined
    }
  }

  /** Tries the routers that answer until one forwards the port. */
  async #find(signal: AbortSignal): Promise<Forwarding> {
    this.#router = undefined
    const locations = await (this.#deps.search ?? searchRouters)(signal)
    const says = 'no router on this network offers it (UPnP may be switched off there)'
    let best: Forwarding = { state: 'failed', says }
    for (const location of locations.slice(0, ROUTERS_MAX)) {
      try {
        const router = await readRouter(location, signal)
        if (router === undefined) continue
        this.#router = router
        best = await this.#use(router, signal)
        if (best.state === 'mapped') return best
      } catch (error) {
        this.#deps.logger.debug({ address: location.href, err: error }, 'a router cannot be used')
        best = { state: 'failed', says: `the router at ${location.hostname} cannot be used: ${reasonOf(error)}` }
      }
    }
    return best
  }

  /** @throws Error if the router does not answer */
  async #use(router: Router, outer: AbortSignal): Promise<Forwarding> {
    const signal = AbortSignal.any([outer, AbortSignal.timeout(this.#timing.mapRouterMs)])
    const external = await externalHost(router, signal)
    const own = listeningOn(router.localHost, this.#deps.listening())
    const refusals: string[] = []
    const made: PortMap[] = []
    for (const { protocol, port } of own) {
      try {
        made.push(await this.#map(router, { protocol, port, host: router.localHost }, signal))
      } catch (error) {
        if (!(error instanceof RouterRefusal)) throw error
        refusals.push(error.message)
      }
    }
    const isPublic = isIPv4(external) && isPrivateIp(external) === false
    this.#tell(isPublic ? made.map((map) => ({ ...map, externalHost: external })) : [])
    const failed = (says: string): Forwarding => ({ state: 'failed', says })
    if (own.length === 0) return failed(`this node listens on nothing in the router's network (${router.localHost})`)
    if (!isPublic) return failed(noPublicAddress(external))
    if (!made.some(({ protocol }) => protocol === 'tcp')) return failed(`the router refuses (${refusals[0] ?? 'TCP'})`)
    const ports = made.map(({ protocol, externalPort }) => `${protocol.toUpperCase()} ${externalPort}`)
    return { state: 'mapped', says: `the router passes ${ports.join(' and ')} of ${external} on to this node (UPnP)` }
  }

  /** @throws RouterRefusal */
  async #map(router: Router, own: Omit<PortMap, 'externalPort'>, signal: AbortSignal): Promise<PortMap> {
    const { protocol, host, port } = own
    const before = this.#made.find((map) => map.protocol === protocol && map.port === port && map.host === host)
    const ports = Array.from({ length: PORTS_TRIED }, (_, more) => port + more).filter((one) => one < 65_536)
    let refusal = new RouterRefusal(718, 'the ports are in use')
    for (const externalPort of new Set([before?.externalPort ?? port, ...ports])) {
      const map = { ...own, externalPort }
      // Some routers would take the port from its holder, even from another program of this machine.
      const holder = await mappedTo(router, map, signal)
      if (holder !== undefined && (holder.host !== host || holder.port !== port)) continue
      // Record the mapping now, so that it is removed even if the answer never arrives.
      this.#made = [...this.#made.filter((one) => one !== before), map]
      try {
        await add(router, map, signal)
        return map
      } catch (error) {
        // Some routers report an existing mapping as a conflict with itself.
        if (holder !== undefined && error instanceof RouterRefusal && CONFLICTS.includes(error.number)) return map
        if (error instanceof RouterRefusal) this.#made = this.#made.filter((one) => one !== map)
        if (!(error instanceof RouterRefusal && CONFLICTS.includes(error.number))) throw error
        refusal = error
      }
    }
    throw refusal
  }

  async #giveBack(signal: AbortSignal): Promise<void> {
    const router = this.#router
    if (router === undefined) return
    const given = this.#made.splice(0).map(async (map) => {
      await deleteMapping(router, map, signal).catch((error: unknown) => {
        const fields = { address: `${map.protocol} ${map.port}`, err: error }
        this.#deps.logger.debug(fields, 'the router keeps passing a port on for a while')
      })
    })
    await Promise.all(given)
  }

  #tell(ports: readonly PublicPort[]): void {
    const now = JSON.stringify(ports)
    if (now === this.#told) return
    this.#told = now
    this.#deps.mapped(ports)
  }
}

async function add(router: Router, map: PortMap, signal: AbortSignal): Promise<void> {
  try {
    await addMapping(router, { ...map, leaseS: LEASE_S }, signal)
  } catch (error) {
    if (!(error instanceof RouterRefusal && error.number === ONLY_WITHOUT_LEASE)) throw error
    await addMapping(router, { ...map, leaseS: 0 }, signal)
  }
}

function listeningOn(localHost: string, listening: readonly Multiaddr[]): Pick<PortMap, 'protocol' | 'port'>[] {
  return listening.flatMap((address) => {
    const [host, port] = address.getComponents()
    const transport = transportOf(address)
    if (transport === undefined || host?.value !== localHost) return []
    return [{ protocol: transport === 'tcp' ? 'tcp' : 'udp', port: Number(port?.value) }]
  })
}

function noPublicAddress(external: string): string {
  const why = 'another router stands before it, perhaps the provider’s'
  if (isIPv4(external) && external !== '0.0.0.0')
    return `the router's own address (${external}) is a private one: ${why}`
  return `the router has no public address: it is not connected, or ${why}`
}
