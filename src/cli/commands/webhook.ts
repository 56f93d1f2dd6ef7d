import * as z from 'zod'
import { type Webhook, WebhookSecret, webhookEvents } from '../../schema/webhook.ts'
import { command, commonOptions, option, repeated } from '../command.ts'
import { CliError, exitCodes, UsageError } from '../exit-code.ts'
import { remoteNode } from '../node-access/remote-node.ts'
import { table } from '../text/market-text.ts'
import { printableLine } from '../text/terminal-text.ts'

const WEBHOOK = { name: 'id', description: 'of the webhook, as `stoa webhook list` shows it' }

export const webhookList = command({
  name: 'webhook list',
  summary: 'List the addresses that are told what happens',
  examples: ['stoa webhook list', 'stoa webhook list --json'],
  options: commonOptions,
  async run(context, flags) {
    const node = await remoteNode(context, flags)
    const webhooks = await node.webhooks({ signal: context.io.signal })
    if (context.json) context.printJson(webhooks)
    else if (webhooks.length === 0) context.print('no webhooks: add one with `stoa webhook add`, or in config.yaml')
    else {
      const headings = ['ID', 'SENT', 'WAITING', 'LOST', 'EVENTS', 'URL']
      for (const line of table(headings, webhooks.map(cells), context)) context.print(line)
      for (const { id, last_error } of webhooks) {
        if (last_error !== undefined) context.tell(context.style.stderr.yellow(printableLine(`${id}: ${last_error}`)))
      }
    }
    return exitCodes.done
  },
})

export const webhookAdd = command({
  name: 'webhook add',
  summary: 'Tell an address what happens, by signed messages',
  details:
    'Messages are signed as Standard Webhooks has it, with the secret in the variable that --secret-env names. An address in your own network, or without https, stands in config.yaml instead.',
  examples: ['stoa webhook add --url https://example.org/stoa --event payment.settled --secret-env WEBHOOK_SECRET'],
  options: {
    url: option('--url <url>', 'where messages go: https (required)', z.string()),
    event: repeated(
      '--event <event>',
      `what it is told of: ${webhookEvents.join(', ')}, or one with a state, as payment.settled; may be repeated (required)`,
      z.array(z.string()),
    ),
    secretEnv: option(
      '--secret-env <name>',
      'environment variable that holds the key of the signatures (required)',
      z.string(),
    ),
    ...commonOptions,
  },
  async run(context, { url, event, secretEnv, ...flags }) {
    if (url === undefined || event === undefined || secretEnv === undefined) {
      throw new UsageError('--url, --event and --secret-env are needed: see stoa webhook add --help')
    }
    const held = (context.io.environment as Record<string, string | undefined>)[secretEnv]
    if (held === undefined || held === '') {
      const name = printableLine(secretEnv)
      throw new UsageError(
        `--secret-env: ${name} is not set here: export ${name}="$(openssl rand -base64 32)" sets a new key`,
      )
    }
    const secret = WebhookSecret.safeParse(held)
    if (!secret.success) {
      throw new UsageError(`--secret-env: ${printableLine(secretEnv)} ${secret.error.issues[0]!.message}`)
    }
    const node = await remoteNode(context, flags)
    const body = { url, events: event, secret: secret.data }
    const webhook = await node.createWebhook(body, { signal: context.io.signal })
    if (context.json) context.printJson(webhook)
    else context.print(`added ${webhook.id}; try it with: stoa webhook test ${webhook.id}`)
    return exitCodes.done
  },
})

export const webhookRemove = command({
  name: 'webhook remove',
  summary: 'Stop telling an address',
  examples: ['stoa webhook remove 3f0e8a52-…'],
  options: commonOptions,
  argument: WEBHOOK,
  async run(context, flags, id) {
    const node = await remoteNode(context, flags)
    const webhook = await node.removeWebhook(needed(id), { signal: context.io.signal })
    if (context.json) context.printJson(webhook)
    else context.print(`removed ${webhook.id}`)
    return exitCodes.done
  },
})

export const webhookTest = command({
  name: 'webhook test',
  summary: 'Send a test message and tell whether it was taken',
  examples: ['stoa webhook test 3f0e8a52-…'],
  options: commonOptions,
  argument: WEBHOOK,
  async run(context, flags, id) {
    const node = await remoteNode(context, flags)
    const result = await node.testWebhook(needed(id), { signal: context.io.signal })
    if (context.json) context.printJson(result)
    if (result.delivered) {
      if (!context.json) context.print(`taken: ${result.status} in ${result.duration_ms} ms`)
      return exitCodes.done
    }
    if (context.json) return exitCodes.failed
    throw new CliError('FAILED', `the message was not taken: ${printableLine(result.error ?? 'no answer')}`)
  },
})

function cells({ id, delivered, pending, dropped, events, url }: Webhook): string[] {
  return [id, `${delivered}`, `${pending}`, `${dropped}`, printableLine(events.join(','), 40), printableLine(url)]
}

function needed(id: string | undefined): string {
  if (id !== undefined) return id
  throw new UsageError('which one? stoa webhook list shows them')
}
