import { networkKind, networkText } from '../../schema/network-kind.ts'
import type { Context } from '../command.ts'
import type { Style } from './terminal-text.ts'

/** TEST or LIVE, as it stands beside amounts (D37). */
export function badge(network: string, { bold, green, yellow }: Style): string {
  return networkKind(network) === 'live' ? bold(yellow('LIVE')) : green('TEST')
}

/** Says above a screen of amounts what kind of money they are. On standard error: pipes see rows only. */
export function tellMoney({ json, style, tell }: Context, network: string): void {
  if (!json) tell(`${badge(network, style.stderr)}  ${style.stderr.dim(networkText(network))}`)
}
