import * as z from 'zod'
import { WebhookSecret, webhookEvents } from '../../schema/webhook.ts'
import { command, option, repeated } from '../command.ts'
import { CliError, exitCodes, UsageError } from '../exit-code.ts'
import { remoteNode } from '../node-access/remote-node.ts'
import { printList } from '../text/market-text.ts'
import { printableLine } from '../text/terminal-text.ts'

const WEBHOOK = {
  name: 'id',
  description: 'id of the webhook from `stoa webhook list`',
  missing: 'the id of the webhook is missing: `stoa webhook list` lists the ids',
}

export const webhookList = command({
  name: 'webhook list',
  summary: 'List the URLs that get events of the node',
  examples: ['stoa webhook list', 'stoa webhook list --json'],
  async run(context, flags) {
    const node = await remoteNode(context, flags)
    const webhooks = await node.webhooks({ signal: context.io.signal })
    printList(context, webhooks, {
      none: 'no webhooks: add one with `stoa webhook add`, or in config.yaml',
      headings: ['ID', 'SENT', 'WAITING', 'LOST', 'EVENTS', 'URL'],
      cells: ({ id, delivered, pending, dropped, events, url }) => [
        ...[id, `${delivered}`, `${pending}`, `${dropped}`],
        ...[printableLine(events.join(','), 40), printableLine(url)],
      ],
    })
    for (const { id, last_error } of context.json ? [] : webhooks) {
      if (last_error !== undefined) context.tell(context.style.stderr.yellow(printableLine(`${id}: ${last_error}`)))
    }
  },
})

export const webhookAdd = command({
  name: 'webhook add',
  summary: 'Send events of the node to a URL as signed messages',
  details:
    'Messages are signed by the rules of Standard Webhooks, with the secret in the variable that --secret-env names. Write a URL in your own network, or without https, into config.yaml instead.',
  examples: ['stoa webhook add --url https://example.org/stoa --event payment.settled --secret-env WEBHOOK_SECRET'],
  options: {
    url: option('--url <url>', 'https URL that gets the messages (required)', z.string()),
    event: repeated(
      '--event <event>',
      `event to send: ${webhookEvents.join(', ')}, or an event with a state, such as payment.settled; may be repeated (required)`,
      z.array(z.string()),
    ),
    secretEnv: option('--secret-env <name>', 'environment variable that holds the signing key (required)', z.string()),
  },
  async run(context, { url, event, secretEnv, ...flags }) {
    if (url === undefined || event === undefined || secretEnv === undefined) {
      throw new UsageError('--url, --event and --secret-env are required: see stoa webhook add --help')
    }
    const held = (context.io.environment as Record<string, string | undefined>)[secretEnv]
    if (held === undefined || held === '') {
      const name = printableLine(secretEnv)
      throw new UsageError(
        `--secret-env: ${name} is not set here: set a new key with export ${name}="$(openssl rand -base64 32)"`,
      )
    }
    const secret = WebhookSecret.safeParse(held)
    if (!secret.success) {
      throw new UsageError(`--secret-env: ${printableLine(secretEnv)} ${secret.error.issues[0]!.message}`)
    }
    const node = await remoteNode(context, flags)
    const body = { url, events: event, secret: secret.data }
    const webhook = await node.createWebhook(body, { signal: context.io.signal })
    context.printResult(webhook, `added ${webhook.id}; test it with: stoa webhook test ${webhook.id}`)
  },
})

export const webhookRemove = command({
  name: 'webhook remove',
  summary: 'Remove a webhook',
  examples: ['stoa webhook remove 3f0e8a52-…'],
  argument: WEBHOOK,
  async run(context, flags, id) {
    const node = await remoteNode(context, flags)
    const webhook = await node.removeWebhook(id, { signal: context.io.signal })
    context.printResult(webhook, `removed ${webhook.id}`)
  },
})

export const webhookTest = command({
  name: 'webhook test',
  summary: 'Send a test message and show whether the receiver accepted it',
  examples: ['stoa webhook test 3f0e8a52-…'],
  argument: WEBHOOK,
  async run(context, flags, id) {
    const node = await remoteNode(context, flags)
    const result = await node.testWebhook(id, { signal: context.io.signal })
    if (!result.delivered && !context.json) {
      const why = printableLine(result.error ?? 'no answer')
      throw new CliError('FAILED', `the receiver did not accept the message: ${why}`)
    }
    context.printResult(result, `accepted: ${result.status} in ${result.duration_ms} ms`)
    return result.delivered ? exitCodes.done : exitCodes.failed
  },
})
