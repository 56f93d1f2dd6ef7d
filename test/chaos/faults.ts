import type { ServerResponse } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import type { Fault } from '../support/faulty-facilitator.ts'
import { type RpcFault, type RpcRequest, refuse } from '../support/faulty-rpc.ts'
import type { LinkState } from './link.ts'
import type { PlannedFault } from './plan.ts'
import type { Random } from './random.ts'
import type { Member, World } from './world.ts'

const FACILITATOR_CALLS = 2_000
const clockOffsets: Record<string, number> = {
  '+90 s': 90_000,
  '-90 s': -90_000,
  '+20 min': 1_200_000,
  '-20 min': -1_200_000,
}
const facilitatorFaults: Record<string, Fault> = {
  drop: { kind: 'drop' },
  '503': { kind: 'status', status: 503, body: { error: 'too busy' } },
  hold: { kind: 'hold' },
  'settle and drop': { kind: 'drop', settles: true },
  'settle and 500': { kind: 'status', status: 500, body: '', settles: true },
  garbage: { kind: 'garbage' },
  pending: { kind: 'pending', settles: true },
  truncated: { kind: 'truncated' },
  empty: { kind: 'empty' },
}

/** Starts a fault, and resolves when the fault is over and undone. */
export async function happen({ kind, target, how, forMs }: PlannedFault, world: World, random: Random): Promise<void> {
  if (kind === 'facilitator') return facilitatorFails(how, forMs, world)
  if (kind === 'chain') {
    await world.stopBlocks()
    await delay(forMs)
    return world.startBlocks()
  }
  const member = world.member(target)
  const { node, links, disk, rpc } = member
  switch (kind) {
    case 'kill':
      return killed(how, forMs, member)
    case 'stop':
      node.signal('SIGSTOP')
      await delay(forMs)
      node.signal('SIGCONT')
      return
    case 'network':
      for (const link of links) link.set(how as LinkState)
      await delay(forMs)
      for (const link of links) link.set('pass')
      return
    case 'disk':
      disk?.fill()
      await delay(forMs)
      return disk?.free()
    case 'clock':
      node.tell({ clockOffsetMs: clockOffsets[how]! })
      await delay(forMs)
      return node.tell({ clockOffsetMs: 0 })
    case 'rpc':
      rpc.fault = await rpcFault(how, world, random)
      await delay(forMs)
      rpc.fault = undefined
  }
}

async function killed(how: string, forMs: number, { node }: Member): Promise<void> {
  if (how === 'politely') await node.end('SIGTERM')
  else if (how !== 'at once') {
    node.tell({ faultPoint: how })
    await node.endsWithin(forMs)
  }
  await node.end('SIGKILL')
  if (how === 'at once' || how === 'politely') await delay(forMs / 2)
  await node.start()
}

async function facilitatorFails(how: string, forMs: number, { facilitator }: World): Promise<void> {
  const fault = facilitatorFaults[how]!
  facilitator.faults.push(...Array.from({ length: FACILITATOR_CALLS }, () => fault))
  await delay(forMs)
  facilitator.faults.length = 0
  facilitator.release()
}

async function rpcFault(how: string, { devnet }: World, random: Random): Promise<RpcFault> {
  const { number, timestamp } = await devnet.chain.client.getBlock()
  const old = { number: `0x${number.toString(16)}`, timestamp }
  return (request, response) => {
    switch (how) {
      case 'down':
        response.destroy()
        return true
      case 'error':
        return refuse(response, request, 'header not found')
      case 'rate limit':
        return refuse(response, request, 'rate limit exceeded', -32_005, 429)
      case 'hang':
        return true
      default:
        // With `behind`, every server of the provider is as old as the fault. With `half behind`, one of two servers
        // is.
        if (how === 'half behind' && random.next() < 0.5) return false
        void answerFromThePast(request, response, old.number, devnet.rpcUrl)
        return true
    }
  }
}

async function answerFromThePast(
  request: RpcRequest,
  response: ServerResponse,
  block: string,
  rpcUrl: string,
): Promise<void> {
  const headers = { 'content-type': 'application/json' }
  try {
    if (request.method === 'eth_blockNumber') {
      response.writeHead(200, headers).end(JSON.stringify({ jsonrpc: '2.0', id: request.id, result: block }))
      return
    }
    const body = JSON.stringify(request).replaceAll('"latest"', `"${block}"`)
    const upstream = await fetch(rpcUrl, { method: 'POST', headers, body })
    response.writeHead(upstream.status, headers).end(await upstream.text())
  } catch {
    response.destroy()
  }
}
