import * as z from 'zod'

/** Webhooks of one node. Each one has its own queue on disk. */
export const WEBHOOKS_MAX = 32

/** What a webhook may subscribe to: an event type, or one of its states. */
export const webhookEvents = ['listing', 'order', 'payment', 'workflow', 'approval'] as const
const eventName = new RegExp(`^(?:${webhookEvents.join('|')})(?:\\.[a-z_]{1,32})?$`)

export const WebhookEvents = z
  .array(
    z
      .string()
      .regex(
        eventName,
        `must be one of ${webhookEvents.join(', ')}, or one of them with a state, such as payment.settled`,
      ),
  )
  .min(1)
  .max(32)
  .meta({ description: 'types of events, or types with a state, such as `payment.settled` or `order.failed`' })

/** The key for signatures: `whsec_` and base64, as in Standard Webhooks, or any text. */
export const WebhookSecret = z
  .string()
  .regex(/^[\x21-\x7e]{24,256}$/, 'must have 24 to 256 printable characters: create one with openssl rand -base64 32')

const WebhookUrl = z
  .string()
  .max(2048)
  .refine((text) => {
    const url = URL.parse(text)
    return url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === ''
  }, 'must be an http(s) URL without user name and password')

/** An entry of `webhooks` in config.yaml. The operator set it, so any address is allowed. */
export const WebhookSetting = z.strictObject({
  url: WebhookUrl,
  secret_env: z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, 'is not the name of an environment variable'),
  events: WebhookEvents,
})
export type WebhookSetting = z.infer<typeof WebhookSetting>

/** The body of POST /webhooks. */
export const CreateWebhook = z
  .strictObject({
    url: WebhookUrl.refine((text) => text.startsWith('https:'), 'must be https').meta({
      description: 'https URL on the public internet; write other URLs into config.yaml',
    }),
    events: WebhookEvents,
    secret: WebhookSecret.meta({ description: 'signing key; never shown again', writeOnly: true }),
  })
  .meta({ id: 'CreateWebhook' })
export type CreateWebhook = z.infer<typeof CreateWebhook>

export const WebhookParams = z.strictObject({ id: z.string().min(1).max(100) })

export const Webhook = z
  .object({
    id: z.string(),
    url: z.string(),
    events: z.array(z.string()),
    source: z.enum(['config', 'api']).meta({ description: 'source of the webhook: config.yaml, or the API' }),
    created_at: z.string(),
    pending: z.int().meta({ description: 'messages that wait for delivery' }),
    delivered: z.int().meta({ description: 'messages delivered since the node started' }),
    dropped: z.int().meta({
      description: 'messages dropped since the node started, after too many attempts or because the queue was full',
    }),
    last_attempt_at: z.string().optional(),
    last_error: z.string().optional().meta({ description: 'error of the latest attempt, if it failed' }),
  })
  .meta({ id: 'Webhook', description: 'A URL that gets events of the node.' })
export type Webhook = z.infer<typeof Webhook>
export const Webhooks = z.array(Webhook)

export const WebhookTest = z
  .object({ delivered: z.boolean(), status: z.int().optional(), error: z.string().optional(), duration_ms: z.int() })
  .meta({ id: 'WebhookTest' })
export type WebhookTest = z.infer<typeof WebhookTest>
