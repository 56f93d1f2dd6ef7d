import { ConfigError } from './config-error.ts'
import { defaultListenHosts } from './listen-hosts.ts'
import type { Settings } from './settings.ts'

/**
 * The listener for strangers, who buy agents of this node over HTTP. @throws ConfigError if what clients are told cannot be
 * what they reach
 */
export function publicSettings(settings: Settings) {
  const { publicPort: port, publicDoorUrl: url, publicTlsCert: cert, publicTlsKey: key, trustedProxies = [] } = settings
  if ((cert === undefined) !== (key === undefined)) {
    const [given, missing] = cert === undefined ? ['tls_key', 'tls_cert'] : ['tls_cert', 'tls_key']
    throw new ConfigError(`public.${missing} is missing: public.${given} needs it. Set both, or none`)
  }
  const tls = cert !== undefined && key !== undefined ? { cert, key } : undefined
  // A proxy may do either.
  if (port !== undefined && trustedProxies.length === 0) checkScheme(url, tls !== undefined)
  return {
    host: settings.publicHost ?? defaultListenHosts().at(-1)!,
    /** Undefined: there is none. */
    port,
    /** Where strangers reach it. No slash at the end. Undefined: at its own address. */
    url,
    /** PEM files of its own certificate with the chain, and of the key. Undefined: it speaks plain HTTP. */
    tls,
    /** Proxies whose X-Forwarded-For is believed. */
    trustedProxies,
  }
}

function checkScheme(url: string | undefined, hasTls: boolean): void {
  if (url?.startsWith('https:') === true && !hasTls) {
    throw new ConfigError(
      `public.url: ${url} needs TLS, and nothing provides it. Set public.tls_cert and public.tls_key, or name the proxy that does in public.trusted_proxies`,
    )
  }
  if (url?.startsWith('http:') === true && hasTls) {
    throw new ConfigError(`public.url: ${url} must begin with https://, because public.tls_cert is set`)
  }
}
