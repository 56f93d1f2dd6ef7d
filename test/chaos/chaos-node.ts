/**
 * `stoa` with a settable clock, fault points where the node can be killed, and connections through proxies.
 *
 * The node uses only TCP, because the proxies carry nothing else. `CHAOS_ROUTES` maps ports to proxy ports:
 * `4001:5001,…`. Faults arrive as messages from the parent process.
 */
import module from 'node:module'
import net from 'node:net'
import { armFaultPoint } from '../../src/lib/fault-point.ts'
import { watchLoop } from './loop-watch.ts'

export type ChaosMessage = { clockOffsetMs: number } | { faultPoint: string } | { loop: 'watch' | 'report' }

module.registerHooks({
  resolve(specifier, context, next) {
    if (specifier === '@chainsafe/libp2p-quic') throw new Error('left out')
    return next(specifier, context)
  },
})

const routes = new Map((process.env.CHAOS_ROUTES ?? '').split(',').map((pair) => pair.split(':') as [string, string]))
const connect = net.Socket.prototype.connect as (...args: unknown[]) => net.Socket
net.Socket.prototype.connect = function (this: net.Socket, ...args: unknown[]) {
  // Arguments are either options or an array with the options first: the form in which Node passes parsed arguments.
  const options = (Array.isArray(args[0]) ? args[0][0] : args[0]) as { port?: number | string } | undefined
  const port = routes.get(String(options?.port))
  if (port !== undefined) options!.port = Number(port)
  return connect.apply(this, args)
} as typeof net.Socket.prototype.connect

const now = Date.now.bind(Date)
let clockOffsetMs = 0
let loop: ReturnType<typeof watchLoop> | undefined
Date.now = () => now() + clockOffsetMs

process.on('message', (message: ChaosMessage) => {
  if ('clockOffsetMs' in message) clockOffsetMs = message.clockOffsetMs
  else if ('loop' in message) {
    loop ??= watchLoop()
    if (message.loop === 'report') process.send?.(loop.report())
  } else armFaultPoint(message.faultPoint, () => process.kill(process.pid, 'SIGKILL'))
})
process.channel?.unref()
await import('../../src/main.ts')
