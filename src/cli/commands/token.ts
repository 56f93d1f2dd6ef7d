import * as z from 'zod'
import { countText, UsdcText } from '../../config/values.ts'
import { scopes } from '../../schema/caller.ts'
import type { TokenRecord } from '../../schema/token.ts'
import { type Context, command, commonOptions, option } from '../command.ts'
import { exitCodes, UsageError } from '../exit-code.ts'
import { moneyNode, remoteNode } from '../node-access/remote-node.ts'
import { age, oneOf, table } from '../text/market-text.ts'
import { printableLine } from '../text/terminal-text.ts'

const DAY_SECONDS = 86_400
const TOKEN = { name: 'id', description: 'the token, as `stoa token list` shows it' }

export const tokenCreate = command({
  name: 'token create',
  summary: 'Make a token for a program, with what it may do and spend',
  details:
    'read looks; execute also runs own and free agents; spend also pays, within a budget of its own; admin does all. ' +
    'The token is shown once. On loopback a program may leave it out, and is then the operator, unless config.yaml says ' +
    'api.require_token: true.',
  examples: [
    'stoa token create --name assistant --scope spend --budget 5 --per-day 1',
    'stoa token create --name dashboard --scope read --days 30',
  ],
  options: {
    name: option('--name <text>', 'who, or what, it is for', z.string().trim().min(1).max(80)),
    scope: option('--scope <scope>', `one of ${scopes.join(', ')}`, oneOf(scopes)),
    budget: option('--budget <usdc>', 'the most it may spend in all', UsdcText),
    perDay: option('--per-day <usdc>', 'the most it may spend in a day (UTC)', UsdcText),
    days: option('--days <count>', 'how long it holds (default: until it is revoked)', countText(3660)),
    ...commonOptions,
  },
  async run(context, { name, scope, budget, perDay, days, ...flags }) {
    if (name === undefined || scope === undefined) throw new UsageError('give --name and --scope')
    if (scope === 'spend' && budget === undefined && perDay === undefined) {
      throw new UsageError('a token that spends needs --budget, --per-day, or both')
    }
    if (scope !== 'spend' && (budget !== undefined || perDay !== undefined)) {
      throw new UsageError('--budget and --per-day go with --scope spend')
    }
    const node = await remoteNode(context, flags)
    const seconds = days === undefined ? {} : { expires_in_seconds: days * DAY_SECONDS }
    const wanted = { name, scope, budget, per_day: perDay, ...seconds }
    const created = await node.createToken(wanted, { signal: context.io.signal })
    if (context.json) context.printJson(created)
    else {
      context.tell(`token ${created.id}: ${scope}. Shown this once; send it as Authorization: Bearer`)
      context.print(created.token)
    }
    return exitCodes.done
  },
})

export const tokenList = command({
  name: 'token list',
  summary: 'Tokens of the API, newest first',
  examples: ['stoa token list', 'stoa token list --json'],
  options: { ...commonOptions },
  async run(context, flags) {
    const node = await moneyNode(context, flags)
    const tokens = await node.tokens({ signal: context.io.signal })
    if (context.json) context.printJson(tokens)
    else if (tokens.length === 0) context.print('no tokens: `stoa token create` makes one')
    else show(context, tokens)
    return exitCodes.done
  },
})

export const tokenRevoke = command({
  name: 'token revoke',
  summary: 'Revoke a token, at once',
  examples: ['stoa token revoke 4fJm0q2pYb1x'],
  options: { ...commonOptions },
  argument: TOKEN,
  async run(context, flags, id) {
    if (id === undefined) throw new UsageError('name the token to revoke: stoa token list shows all')
    const node = await remoteNode(context, flags)
    const token = await node.revokeToken(id, { signal: context.io.signal })
    if (context.json) context.printJson(token)
    else context.print(printableLine(`token ${token.id} (${token.name}) is revoked`))
    return exitCodes.done
  },
})

function show(context: Context, tokens: readonly TokenRecord[]): void {
  const now = context.parts.clock.now()
  const rows = tokens.map((token) => [
    token.id,
    token.scope,
    stateOf(token, now),
    token.scope === 'spend' ? `${token.spent} of ${token.budget ?? 'no limit'}` : '',
    token.per_day === null ? '' : `${token.spent_today} of ${token.per_day}`,
    age(token.created_at, now),
    printableLine(token.name),
  ])
  const headings = ['TOKEN', 'SCOPE', 'STATE', 'SPENT', 'TODAY', 'AGE', 'NAME']
  for (const line of table(headings, rows, context)) context.print(line)
}

function stateOf({ revoked_at, expires_at }: TokenRecord, now: number): string {
  if (revoked_at !== undefined) return 'revoked'
  return expires_at !== undefined && Date.parse(expires_at) <= now ? 'expired' : 'holds'
}
