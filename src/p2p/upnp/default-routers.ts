import { readFile } from 'node:fs/promises'

const ROUTES = '/proc/net/route'

/**
 * The routers this machine sends through, if it tells (Linux). They are asked directly too. A firewall on this machine
 * accepts the answer to a direct question, and drops the answer to a multicast question.
 *
 * @param routes the routes as text. Each line has: interface, destination, gateway, … Addresses are hexadecimal, the
 * last byte first
 */
export async function defaultRouters(routes?: string): Promise<string[]> {
  const text = routes ?? (await readFile(ROUTES, 'latin1').catch(() => ''))
  const gateways = text.split('\n').flatMap((line) => {
    const [, destination, gateway = ''] = line.split('\t')
    return destination === '00000000' && /^[0-9A-F]{8}$/.test(gateway) && gateway !== '00000000' ? [gateway] : []
  })
  return [...new Set(gateways)].map((gateway) => [...Buffer.from(gateway, 'hex')].toReversed().join('.'))
}

/** True if this machine sends through a router. If its routes do not tell, it may. */
export async function sendsThrough({ hostname }: URL): Promise<boolean> {
  const routers = await defaultRouters()
  return routers.length === 0 || routers.includes(hostname)
}
