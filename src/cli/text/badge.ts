import { networkKind, networkText } from '../../schema/network-kind.ts'
import type { Context } from '../command.ts'
import type { Style } from './terminal-text.ts'

/** TEST or LIVE, printed next to amounts (D37). */
export function badge(network: string, { bold, green, yellow }: Style): string {
  return networkKind(network) === 'live' ? bold(yellow('LIVE')) : green('TEST')
}

/** Prints the kind of money above a screen of amounts. Uses standard error, so that pipes get only rows. */
export function tellMoney({ json, style, tell }: Context, network: string): void {
  if (!json) tell(`${badge(network, style.stderr)}  ${style.stderr.dim(networkText(network))}`)
}
