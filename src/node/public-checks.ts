import type { Config } from '../config/config.ts'
import type { TlsState } from '../http/public/public-tls.ts'
import { isoTime } from '../lib/clock.ts'
import { type Finding, fail, ok, skip, warn } from '../lib/finding.ts'

/** The listener for strangers as it runs. */
export type PublicDoorState = { url: string; tls: TlsState | undefined }

/** Settings of a public listener without its port: nothing listens, so whoever set them waits for buyers in vain. */
export function checkClosedDoor({ url, tls, trustedProxies }: Config['public']): Finding {
  const names = [
    ...(url === undefined ? [] : ['public.url']),
    ...(tls === undefined ? [] : ['public.tls_cert']),
    ...(trustedProxies.length === 0 ? [] : ['public.trusted_proxies']),
  ]
  if (names.length === 0) return skip('off: public.port in config.yaml')
  const what = `${names.join(', ')} ${names.length === 1 ? 'is' : 'are'} set and public.port is not`
  return warn(`${what}, so nobody can buy over HTTP`, 'set public.port, or remove the others')
}

/** Looks at the certificate of the public listener. */
export function checkPublicDoor(door: PublicDoorState | undefined, settings: Config['public']): Finding | Finding[] {
  if (door === undefined) return checkClosedDoor(settings)
  const { url, tls } = door
  if (tls === undefined) return ok(`open at ${url}`)
  const found = [
    ...(tls.refused === undefined
      ? []
      : [
          fail(
            `the new TLS files cannot be used, so the certificate before is served: ${tls.refused}`,
            'repair the files: the node reads them again every 10 s',
          ),
        ]),
    ...tls.notes.map((note) => warn(note, 'see docs/doors.md, TLS')),
  ]
  return found.length > 0 ? found : ok(`open at ${url}, with a certificate until ${isoTime(tls.expiresAt)}`)
}
