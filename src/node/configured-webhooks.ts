import type { Config } from '../config/config.ts'
import { ConfigError } from '../config/config-error.ts'
import type { Secrets } from '../config/secrets.ts'
import { WebhookSecret } from '../schema/webhook.ts'
import type { ConfiguredWebhook } from '../webhooks/webhooks.ts'

/** The webhooks of config.yaml. @throws ConfigError for a key that is not set, or is none */
export function configuredWebhooks(
  { webhooks }: Pick<Config, 'webhooks'>,
  secrets: Pick<Secrets, 'env'>,
): ConfiguredWebhook[] {
  return (webhooks ?? []).map(({ url, events, secret_env }) => ({ url, events, secret: secretOf(secret_env, secrets) }))
}

function secretOf(variable: string, secrets: Pick<Secrets, 'env'>): ConfiguredWebhook['secret'] {
  const secret = WebhookSecret.safeParse(secrets.env(variable))
  if (secret.success) return secret.data
  const how = secrets.env(variable) === undefined ? 'is not set' : secret.error.issues[0]!.message
  throw new ConfigError(`config.yaml: webhooks: the variable ${variable}, which secret_env names, ${how}`)
}
