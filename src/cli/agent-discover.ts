import { encode } from 'zod'
import type { Config } from '../config/config.ts'
import type { Secrets } from '../config/secrets.ts'
import { countText } from '../config/values.ts'
import { Listing } from '../schema/listing.ts'
import { type Context, command, commonOptions, option } from './command.ts'
import { exitCodes } from './exit-code.ts'
import { networkOptions } from './network-options.ts'
import { poll, withOwnNode } from './own-node.ts'
import { findRunningNode } from './running-node.ts'
import { withSpinner } from './spinner.ts'
import { priceText, printableLine } from './terminal-text.ts'

const WAIT_SECONDS = 8
/** A list that has not grown for this long is taken for complete. */
const QUIET_MS = 1500

export const agentDiscover = command({
  name: 'agent discover',
  summary: 'List the agents on the market: names, prices, who sells them and where',
  details:
    'Asks the node that runs on the data directory. Where none runs, a short-lived node of its own joins the network, listens for listings and leaves.',
  examples: [
    'stoa agent discover',
    'stoa agent discover --json | jq -r ".[].id"',
    'stoa agent discover --bootstrap /ip4/203.0.113.7/tcp/4001/p2p/12D3KooW…',
  ],
  options: {
    ...networkOptions,
    wait: option('--wait <seconds>', `how long to listen when no node runs (default: ${WAIT_SECONDS})`, countText(600)),
    ...commonOptions,
  },
  async run(context, { wait = WAIT_SECONDS, ...flags }) {
    const { config, secrets } = await context.loadConfig(flags)
    const running = await findRunningNode(context, config, secrets)
    const listings =
      running === undefined
        ? await listen(context, { config, secrets, port: flags.port }, wait * 1000)
        : await running.node.agents({ signal: context.io.signal })
    if (context.json) context.printJson(listings.map((listing) => encode(Listing, listing)))
    else show(context, listings, running === undefined && config.p2p.bootstrap.length === 0)
    return exitCodes.done
  },
})

/** Joins the network for a while: until the list has been quiet, or the time is over. */
async function listen(
  context: Context,
  node: { config: Config; secrets: Secrets; port: number | undefined },
  limitMs: number,
): Promise<Listing[]> {
  const output = context.json ? undefined : context.io.stderr
  return await withSpinner(output, 'no node runs here: listening for listings with one of our own', () =>
    withOwnNode(context, node, async (own) => {
      let quietSince = performance.now()
      let count = 0
      const settled = () => {
        const listings = own.listings()
        if (listings.length !== count) quietSince = performance.now()
        count = listings.length
        return count > 0 && performance.now() - quietSince >= QUIET_MS ? listings : undefined
      }
      return (await poll(settled, { limitMs, signal: context.io.signal })) ?? own.listings()
    }),
  )
}

function show(context: Context, listings: readonly Listing[], alone: boolean): void {
  const { bold, dim, green } = context.style.stdout
  if (listings.length === 0) {
    const hint = alone ? ': name a peer with --bootstrap <multiaddr>, or look again in a moment' : ''
    context.print(`no agents found${hint}`)
    return
  }
  context.print(bold(`${listings.length} ${listings.length === 1 ? 'agent' : 'agents'}`))
  for (const listing of listings) {
    const where = listing.local ? 'this node' : listing.seller_id
    context.print()
    context.print(
      `${bold(printableLine(listing.name))}  ${green(priceText(listing.price))}  ${dim(printableLine(listing.model ?? ''))}`.trimEnd(),
    )
    context.print(`  id      ${listing.id}`)
    context.print(`  seller  ${printableLine(where)}`)
    for (const address of listing.addrs.slice(0, 4)) context.print(`  at      ${printableLine(address)}`)
    context.print(`  ${dim(printableLine(listing.description, 160))}`)
  }
}
