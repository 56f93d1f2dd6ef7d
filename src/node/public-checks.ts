import type { TlsState } from '../http/public/public-tls.ts'
import { isoTime } from '../lib/clock.ts'
import { type Finding, fail, ok, skip, warn } from '../lib/finding.ts'

/** The listener for strangers as it runs. */
export type PublicDoorState = { url: string; tls: TlsState | undefined }

/** Looks at the certificate of the public listener. */
export function checkPublicDoor(door: PublicDoorState | undefined): Finding | Finding[] {
  if (door === undefined) return skip('off: public.port in config.yaml')
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
