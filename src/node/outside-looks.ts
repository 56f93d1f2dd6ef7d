import { type Finding, fail, ok, skip, warn } from '../lib/finding.ts'
import { isPublicAddress } from '../lib/public-address.ts'
import type { Host, PeerView } from '../p2p/host.ts'
import { askForLook } from '../protocols/doors/door-looks.ts'
import { DOOR_LOOK_PROTOCOL, type LookCode } from '../schema/door-look.ts'

type OutsideDeps = {
  host: Pick<Host, 'speaks' | 'siteOf' | 'openStream'>
  peers(): readonly PeerView[]
}

/** Peers that are asked. One alone may lie. */
const PEERS_MAX = 3

const NOT_SEEN = 'not seen from outside'
const REACH = 'see that the name, the router, the firewall and the proxy lead to public.port'
const found: Record<Exclude<LookCode, 'ok' | 'refused' | 'busy'>, [text: string, fix: string]> = {
  unreachable: ['cannot reach it', REACH],
  tls: ['refuse its TLS', 'renew the certificate, with the chain up to a known authority'],
  other_answer: ['get another answer than 402', 'let the proxy pass the path on to public.port unchanged'],
  other_terms: ['get other terms than the listing has', 'let the proxy pass all headers on, and set public.url right'],
}

/** Lets peers ask the address of an own agent, since only they can say whether others reach it. Never throws. */
export function createOutsideLooks({ host, peers }: OutsideDeps) {
  return async (agentId: string, url: string, signal: AbortSignal): Promise<Finding> => {
    const { protocol, hostname } = new URL(url)
    if (protocol !== 'https:') return skip(`${NOT_SEEN}: peers ask https addresses only`)
    if (/^[0-9.]+$/.test(hostname) && !isPublicAddress(hostname)) {
      return skip(`${NOT_SEEN}: peers ask addresses of the open internet only`)
    }
    const chosen = choose(peers(), host)
    if (chosen.length === 0) return skip(`${NOT_SEEN}: no connected peer offers to look`)
    const ask = async (peerId: string): Promise<LookCode | undefined> => {
      try {
        const stream = await host.openStream({ peerId, addrs: [] }, DOOR_LOOK_PROTOCOL, signal)
        return await askForLook(stream, { agent_id: agentId, url }, signal)
      } catch {
        return undefined
      }
    }
    return judge(await Promise.all(chosen.map(ask)))
  }
}

/** Sorts peers of different sites first, because peers of one site see the same. */
function choose(peers: readonly PeerView[], host: OutsideDeps['host']): string[] {
  const able = peers.map(({ peerId }) => peerId).filter((peerId) => host.speaks(peerId, DOOR_LOOK_PROTOCOL) === true)
  const sites = new Set<string | undefined>()
  const others = able.filter((peerId) => {
    const site = host.siteOf(peerId)
    const isNew = !sites.has(site)
    sites.add(site)
    return isNew
  })
  return [...new Set([...others, ...able])].slice(0, PEERS_MAX)
}

/** @internal Exported for its test. */
export function judge(codes: readonly (LookCode | undefined)[]): Finding {
  const said = codes.filter((code) => code !== undefined && code !== 'refused' && code !== 'busy')
  if (said.length === 0) {
    const why = codes.includes('busy')
      ? 'the peers were asked too often; test again in a minute'
      : codes.includes('refused')
        ? 'the peers do not look at this address, or do not know the listing yet'
        : 'the peers did not answer'
    return skip(`${NOT_SEEN}: ${why}`)
  }
  const good = said.filter((code) => code === 'ok').length
  if (good === said.length)
    return ok(`${peersText(good)} ${good === 1 ? 'gets' : 'get'} 402 with the price of the listing`)
  const bad = said.find((code) => code !== 'ok') as keyof typeof found
  const [text, fix] = found[bad]
  if (good > 0) return warn(`${said.length - good} of ${peersText(said.length)} ${text}`, fix)
  return fail(`${said.length === 1 ? 'a peer says' : `${said.length} peers say`} that others ${text}`, fix)
}

function peersText(count: number): string {
  return count === 1 ? '1 peer' : `${count} peers`
}
