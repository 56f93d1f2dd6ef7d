/* By hand: libp2p's module speaks one version of UPnP, believes any host and leaves ports open (ADR-16). */

import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { networkInterfaces } from 'node:os'
import { idle } from '../../lib/wait.ts'
import { defaultRouters } from './default-routers.ts'
import { type LocalNetwork, RouterAnswers } from './router-answers.ts'

const GROUP = '239.255.255.250'
const PORT = 1900
/** By the standard, a router of version 2 also answers to version 1. Not all routers do. */
const TARGETS = [1, 2].map((version) => `urn:schemas-upnp-org:device:InternetGatewayDevice:${version}`)
const NETWORKS_MAX = 8
/** Requests sent, because UDP packets are sometimes lost. */
const ASK_TIMES = 2
/** Wait for answers. Hosts answer within a second, as requested (MX), so that not all answer at once. */
const ASK_EVERY_MS = 1200
/** Wait for a second description of the router. */
const AFTER_ROUTER_MS = 300

/**
 * Asks the local IPv4 networks where routers describe themselves (SSDP). Any host there may answer, and may answer
 * first. Only descriptions at the address of the answering host are accepted. The search ends early only when this
 * machine's own router has answered, or when an answer came and no own router is known.
 */
export async function searchRouters(signal: AbortSignal): Promise<URL[]> {
  const routers = await defaultRouters()
  const networks = ownNetworks()
  const answers = new RouterAnswers(routers, networks)
  const hosts = [GROUP, ...routers]
  const sockets = await Promise.all(networks.map(({ address }) => open(address)))
  const asking = sockets.filter((socket) => socket !== undefined)
  for (const socket of asking) socket.on('message', (message, from) => answers.take(message, from))
  try {
    const waiting = AbortSignal.any([signal, answers.ofRouter])
    for (let time = 0; time < ASK_TIMES && !waiting.aborted && !answers.suffice; time++) {
      for (const socket of asking) ask(socket, hosts)
      await idle(ASK_EVERY_MS, waiting)
    }
    if (answers.ofRouter.aborted) await idle(AFTER_ROUTER_MS, signal)
  } finally {
    for (const socket of asking) socket.close()
  }
  return answers.found()
}

function ownNetworks(): LocalNetwork[] {
  const addresses = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses)
  return addresses
    .filter(({ family, internal, address }) => family === 'IPv4' && !internal && !address.startsWith('169.254.'))
    .flatMap(({ address, cidr }) => (cidr === null ? [] : [{ address, cidr }]))
    .slice(0, NETWORKS_MAX)
}

/** Undefined if the network has gone. */
async function open(address: string): Promise<Socket | undefined> {
  const socket = createSocket('udp4')
  try {
    socket.bind(0, address)
    await once(socket, 'listening')
    socket.setMulticastInterface(address)
    socket.setMulticastTTL(2)
    return socket.on('error', () => {})
  } catch {
    socket.on('error', () => {}).close()
    return undefined
  }
}

function ask(socket: Socket, hosts: readonly string[]): void {
  for (const target of TARGETS) {
    const lines = ['M-SEARCH * HTTP/1.1', `HOST: ${GROUP}:${PORT}`, 'MAN: "ssdp:discover"', 'MX: 1']
    const message = `${[...lines, `ST: ${target}`].join('\r\n')}\r\n\r\n`
    for (const host of hosts) socket.send(message, PORT, host, () => {})
  }
}
