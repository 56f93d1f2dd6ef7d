import { CreateWebhook, Webhook, WebhookParams, Webhooks, WebhookTest } from '../../../schema/webhook.ts'
import type { Webhooks as WebhookSender } from '../../../webhooks/webhooks.ts'
import { type Operation, operation } from '../operation.ts'

export type WebhooksPart = Pick<WebhookSender, 'list' | 'create' | 'remove' | 'test'>

const row = { tags: ['webhooks'], access: 'private', scope: 'admin' } as const

export function webhookRoutes(webhooks: WebhooksPart): Operation[] {
  return [
    operation({
      ...row,
      id: 'listWebhooks',
      method: 'GET',
      path: '/webhooks',
      summary: 'Addresses that get events',
      response: Webhooks,
      handler: () => webhooks.list(),
    }),
    operation({
      ...row,
      id: 'createWebhook',
      method: 'POST',
      path: '/webhooks',
      summary: 'Send events to an address',
      description:
        'Each event is a POST of `{type, timestamp, data}`, signed by Standard Webhooks (`webhook-id`, ' +
        '`webhook-timestamp`, `webhook-signature`). The node repeats it for about a day until the answer is 2xx. ' +
        'The address must be https and on the public internet. Set an address in your own network in config.yaml. ' +
        'Long texts are cut.',
      body: CreateWebhook,
      example: {
        url: 'https://example.org/stoa',
        events: ['payment.settled', 'order'],
        secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
      },
      response: Webhook,
      status: 201,
      errors: ['WEBHOOKS_TOO_MANY', 'STORE_WRITE_FAILED'],
      location: ({ id }) => `/webhooks/${id}`,
      handler: ({ body }) => webhooks.create(body),
    }),
    operation({
      ...row,
      id: 'removeWebhook',
      method: 'DELETE',
      path: '/webhooks/{id}',
      summary: 'Stop sending events to an address',
      description: 'Events that wait for it are dropped.',
      params: WebhookParams,
      response: Webhook,
      errors: ['UNKNOWN_WEBHOOK', 'WEBHOOK_CONFIGURED', 'STORE_WRITE_FAILED'],
      handler: ({ params }) => webhooks.remove(params.id),
    }),
    operation({
      ...row,
      id: 'testWebhook',
      method: 'POST',
      path: '/webhooks/{id}/test',
      summary: 'Send a test message at once',
      params: WebhookParams,
      response: WebhookTest,
      errors: ['UNKNOWN_WEBHOOK'],
      handler: ({ params }) => webhooks.test(params.id),
    }),
  ]
}
