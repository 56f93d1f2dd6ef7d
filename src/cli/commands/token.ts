import { countText, UsdcText } from '../../config/values.ts'
import { scopes, scopeTexts } from '../../schema/caller.ts'
import { TOKEN_DAYS_MAX } from '../../schema/limits.ts'
import { TokenName, type TokenRecord } from '../../schema/token.ts'
import { command, option } from '../command.ts'
import { UsageError } from '../exit-code.ts'
import { moneyNode, remoteNode } from '../node-access/remote-node.ts'
import { age, oneOf, printList } from '../text/market-text.ts'
import { printableLine } from '../text/terminal-text.ts'

const DAY_SECONDS = 86_400
const TOKEN = {
  name: 'id',
  description: 'id of the token from `stoa token list`',
  missing: 'the id of the token is missing: `stoa token list` lists the ids',
}

export const tokenCreate = command({
  name: 'token create',
  summary: 'Create an API token for a program, with a scope and a budget',
  details:
    `Scopes: ${scopes.map((scope) => `${scope} ${scopeTexts[scope]}`).join('; ')}. ` +
    'The token is shown only once. A program on this machine may call the API without a token and then acts as the operator, unless config.yaml sets ' +
    'api.require_token: true.',
  examples: [
    'stoa token create --name assistant --scope spend --budget 5 --per-day 1',
    'stoa token create --name dashboard --scope read --days 30',
  ],
  options: {
    name: option('--name <text>', 'who or what the token is for', TokenName),
    scope: option('--scope <scope>', `one of ${scopes.join(', ')}`, oneOf(scopes)),
    budget: option('--budget <usdc>', 'the most that the token may spend in total', UsdcText),
    perDay: option('--per-day <usdc>', 'the most that the token may spend per day (UTC)', UsdcText),
    days: option(
      '--days <count>',
      'how many days the token is valid (default: until it is revoked)',
      countText(TOKEN_DAYS_MAX),
    ),
  },
  async run(context, { name, scope, budget, perDay, days, ...flags }) {
    if (name === undefined || scope === undefined) throw new UsageError('--name and --scope are required')
    if (scope === 'spend' && budget === undefined && perDay === undefined) {
      throw new UsageError('a token with the scope spend needs --budget, --per-day, or both')
    }
    if (scope !== 'spend' && (budget !== undefined || perDay !== undefined)) {
      throw new UsageError('--budget and --per-day need --scope spend')
    }
    const node = await remoteNode(context, flags)
    const seconds = days === undefined ? {} : { expires_in_seconds: days * DAY_SECONDS }
    const wanted = { name, scope, budget, per_day: perDay, ...seconds }
    const created = await node.createToken(wanted, { signal: context.io.signal })
    if (context.json) context.printJson(created)
    else {
      context.tell(
        `created token ${created.id} (${scope}). It is shown only now. Send it as Authorization: Bearer <token>`,
      )
      context.print(created.token)
    }
  },
})

export const tokenList = command({
  name: 'token list',
  summary: 'List the API tokens, newest first',
  examples: ['stoa token list', 'stoa token list --json'],
  async run(context, flags) {
    const node = await moneyNode(context, flags)
    const tokens = await node.tokens({ signal: context.io.signal })
    const now = context.parts.clock.now()
    printList(context, tokens, {
      none: 'no tokens: create one with `stoa token create`',
      headings: ['TOKEN', 'SCOPE', 'STATE', 'SPENT', 'TODAY', 'AGE', 'NAME'],
      cells: (token) => [
        token.id,
        token.scope,
        stateOf(token, now),
        token.scope === 'spend'
          ? `${token.spent} of ${token.budget === null ? 'no limit' : `${token.budget} USDC`}`
          : '',
        token.per_day === null ? '' : `${token.spent_today} of ${token.per_day} USDC`,
        age(token.created_at, now),
        printableLine(token.name),
      ],
    })
  },
})

export const tokenRevoke = command({
  name: 'token revoke',
  summary: 'Revoke a token now',
  examples: ['stoa token revoke 4fJm0q2pYb1x'],
  argument: TOKEN,
  async run(context, flags, id) {
    const node = await remoteNode(context, flags)
    const token = await node.revokeToken(id, { signal: context.io.signal })
    context.printResult(token, printableLine(`revoked token ${token.id} (${token.name})`))
  },
})

function stateOf({ revoked_at, expires_at }: TokenRecord, now: number): string {
  if (revoked_at !== undefined) return 'revoked'
  return expires_at !== undefined && Date.parse(expires_at) <= now ? 'expired' : 'active'
}
