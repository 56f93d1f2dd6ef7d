/**
 * `stoa`, with a clock that can be set, places where it can be killed, and connections that go through proxies.
 *
 * Only TCP, as the proxies pass nothing else on. `CHAOS_ROUTES` says for which port to take which: `4001:5001,…`. What is to
 * go wrong comes as messages of the process that started it.
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
  // Either options, or an array with the options first: how Node passes arguments that it has read already.
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
