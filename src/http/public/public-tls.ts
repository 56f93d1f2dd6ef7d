import { stat } from 'node:fs/promises'
import type { SecureContextOptions } from 'node:tls'
import { type Clock, isoTime, type UnixMs } from '../../lib/clock.ts'
import { reasonOf } from '../../lib/errors.ts'
import type { Logger } from '../../lib/logger.ts'
import { periodic } from '../../lib/periodic.ts'
import { modeOf } from '../../store/secret-file.ts'
import { isForHost, readTlsPair, type TlsFiles, type TlsPair } from './tls-pair.ts'

/** How TLS on the public listener is: what is served, and what is wrong with it or with newer files. */
export type TlsState = {
  expiresAt: UnixMs
  /** Why the files are not used as they are. The last good pair is served. */
  refused: string | undefined
  /** What works, and should be changed. */
  notes: string[]
}

export type PublicTls = {
  /** @throws CodedError PUBLIC_TLS_UNUSABLE */
  load(): Promise<SecureContextOptions>
  /** Begins to look for changed files. */
  follow(apply: (pair: SecureContextOptions) => void): Promise<void>
  /** Undefined before the files were loaded. */
  state(): TlsState | undefined
  stop(): Promise<void>
}

/** How often the files are looked at. */
const LOOK_MS = 10_000
/** Certificates are usually renewed a month before their end. */
const NOTE_BEFORE_MS = 14 * 24 * 60 * 60 * 1000
/** Rights that no key should give: all of others, and to write for a group. A group that reads is a choice of the operator. */
const LOOSE = 0o027

type PublicTlsDeps = { clock: Clock; logger: Logger; url: string | undefined; everyMs?: number }

/**
 * The certificate and the key of the public listener, from two files that the operator renews. A renewal writes one file
 * after the other, so a pair that does not fit is kept back until it does.
 */
export function createPublicTls(files: TlsFiles, deps: PublicTlsDeps): PublicTls {
  const { clock, logger, url, everyMs = LOOK_MS } = deps
  let pair: TlsPair | undefined
  let stamp = ''
  let refused: string | undefined
  let keyNote: string | undefined
  let told = new Set<string>()
  let apply = (_: SecureContextOptions): void => {}

  const options = ({ cert, key }: TlsPair): SecureContextOptions => ({ cert, key, minVersion: 'TLSv1.2' })

  async function load(): Promise<SecureContextOptions> {
    stamp = await stampOf(files)
    pair = await readTlsPair(files, clock.now())
    keyNote = await looseKey(files.key)
    tellNotes()
    return options(pair)
  }

  async function look(): Promise<void> {
    const now = await stampOf(files)
    // A refused pair is read again each time: it may hold later, or have been written half.
    if (now !== stamp || refused !== undefined) await change(now)
    tellNotes()
  }

  async function change(now: string): Promise<void> {
    try {
      const next = await readTlsPair(files, clock.now())
      apply(options(next))
      pair = next
      stamp = now
      refused = undefined
      keyNote = await looseKey(files.key)
      told = new Set()
      logger.info({}, `the public listener serves the new certificate, which expires on ${isoTime(pair.expiresAt)}`)
    } catch (error) {
      const reason = reasonOf(error)
      if (reason === refused) return
      refused = reason
      logger.error(
        { err: error },
        'the new TLS files cannot be used: the public listener serves the certificate before',
      )
    }
  }

  const notesOf = (of: TlsPair) => pairNotes(of, { url, now: clock.now(), keyNote })

  function tellNotes(): void {
    if (pair === undefined) return
    for (const note of notesOf(pair)) {
      if (!told.has(note)) logger.warn({}, note)
      told.add(note)
    }
  }

  const looks = periodic(
    { name: 'public TLS', firstMs: everyMs, everyMs },
    { work: look, onError: (error) => logger.error({ err: error }, 'the TLS files could not be looked at') },
  )
  return {
    load,
    async follow(serve) {
      apply = serve
      await looks.start()
    },
    state: () => pair && { expiresAt: pair.expiresAt, refused, notes: notesOf(pair) },
    stop: looks.stop,
  }
}

/** The notes of `TlsState`. */
function pairNotes(
  { expiresAt, certificate, isChainForeign }: TlsPair,
  { url, now, keyNote }: { url: string | undefined; now: UnixMs; keyNote: string | undefined },
): string[] {
  const leftMs = expiresAt - now
  const until = isoTime(expiresAt)
  return [
    ...(leftMs <= 0 ? [`the certificate expired on ${until}: clients refuse the public listener`] : []),
    ...(leftMs > 0 && leftMs < NOTE_BEFORE_MS ? [`the certificate expires on ${until}: renew it`] : []),
    ...(url !== undefined && !isForHost({ certificate }, url)
      ? [`the certificate is not for the host of public.url (${url}): clients refuse it`]
      : []),
    ...(isChainForeign
      ? ['the file of the certificate holds others after it, and none of them issued the own one: clients refuse it']
      : []),
    ...(keyNote === undefined ? [] : [keyNote]),
  ]
}

/** The files as a node would find them at its start. @throws CodedError PUBLIC_TLS_UNUSABLE */
export async function inspectTls(
  files: TlsFiles,
  { url, now }: { url: string | undefined; now: UnixMs },
): Promise<TlsState> {
  const pair = await readTlsPair(files, now)
  const keyNote = await looseKey(files.key)
  return { expiresAt: pair.expiresAt, refused: undefined, notes: pairNotes(pair, { url, now, keyNote }) }
}

/** Changes when one of the files does. A missing file is a state too. */
async function stampOf({ cert, key }: TlsFiles): Promise<string> {
  const stamps = await Promise.all(
    [cert, key].map((path) =>
      stat(path, { bigint: true }).then(
        ({ dev, ino, size, mtimeNs, ctimeNs }) => [dev, ino, size, mtimeNs, ctimeNs].join(':'),
        (error: unknown) => reasonOf(error),
      ),
    ),
  )
  return stamps.join(' ')
}

/** On Windows the bits say nothing. */
async function looseKey(path: string): Promise<string | undefined> {
  const mode = await modeOf(path)
  if (process.platform === 'win32' || mode === undefined || (mode & LOOSE) === 0) return undefined
  return `the key in ${path} is open to other users (mode ${mode.toString(8)}): run chmod 600 on it`
}
