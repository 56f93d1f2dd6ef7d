import { type CreateWebhook, Webhook, Webhooks, WebhookTest } from '../../schema/webhook.ts'
import { at, type Options, type Requests } from './requests.ts'

/** The webhooks of a running node. The functions throw the errors of ApiClient. */
export type WebhookCalls = {
  webhooks(options?: Options): Promise<Webhook[]>
  createWebhook(webhook: CreateWebhook, options?: Options): Promise<Webhook>
  removeWebhook(id: string, options?: Options): Promise<Webhook>
  testWebhook(id: string, options?: Options): Promise<WebhookTest>
}

export function webhookCalls({ request }: Requests): WebhookCalls {
  return {
    webhooks: (options) => request('/webhooks', Webhooks, options),
    createWebhook: (webhook, options) => request('/webhooks', Webhook, options, webhook),
    removeWebhook: (id, options) => request(at('webhooks', id), Webhook, options, undefined, 'DELETE'),
    testWebhook: (id, options) => request(`${at('webhooks', id)}/test`, WebhookTest, options, {}),
  }
}
