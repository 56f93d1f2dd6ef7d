import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { open } from 'node:fs/promises'
import { isIP } from 'node:net'
import { createSecureContext } from 'node:tls'
import { bareHost } from '../../lib/bare-host.ts'
import { isoTime, type UnixMs } from '../../lib/clock.ts'
import { CodedError, reasonOf } from '../../lib/errors.ts'

/** Paths of PEM files: the certificate with its chain, and its private key. */
export type TlsFiles = { cert: string; key: string }

/** A certificate and its key that fit together and are valid. */
export type TlsPair = {
  cert: string
  key: string
  expiresAt: UnixMs
  certificate: X509Certificate
  /** The certificates after the own one are of another chain. */
  isChainForeign: boolean
}

/** Limit in bytes. A chain has some kilobytes: a larger file is some other file. */
const PEM_BYTES_MAX = 256 * 1024
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** Reads both files and checks that clients can be served with them. @throws CodedError PUBLIC_TLS_UNUSABLE */
export async function readTlsPair(files: TlsFiles, now: UnixMs): Promise<TlsPair> {
  const [cert, key] = await Promise.all([readPem(files.cert, 'public.tls_cert'), readPem(files.key, 'public.tls_key')])
  const chain = chainIn(cert, files.cert)
  const [certificate] = chain
  const { validFromDate, validToDate, subject } = certificate
  if (!certificate.checkPrivateKey(keyIn(key, files.key))) {
    const fix =
      'name the key of this certificate. The file of the certificate begins with the own one, before its chain'
    throw unusable(`the key in ${files.key} does not belong to the certificate in ${files.cert}: ${fix}`)
  }
  const named = `the certificate in ${files.cert} (${subject?.replaceAll('\n', ', ') ?? 'no subject'})`
  if (validToDate.getTime() <= now) {
    throw unusable(`${named} expired on ${isoTime(validToDate.getTime())}: renew it`)
  }
  if (validFromDate.getTime() > now) {
    throw unusable(
      `${named} is not valid before ${isoTime(validFromDate.getTime())}: look at the clock of this machine`,
    )
  }
  try {
    createSecureContext({ cert, key, minVersion: 'TLSv1.2' })
  } catch (error) {
    throw unusable(`${named} cannot be used for TLS: ${reasonOf(error)}`, error)
  }
  // Clients take a chain in any order.
  const isChainForeign = chain.length > 1 && !chain.some((one) => certificate.checkIssued(one))
  return { cert, key, expiresAt: validToDate.getTime(), certificate, isChainForeign }
}

/** Whether the certificate is for the host that clients dial. */
export function isForHost({ certificate }: Pick<TlsPair, 'certificate'>, url: string): boolean {
  const host = bareHost(new URL(url).hostname)
  return (isIP(host) === 0 ? certificate.checkHost(host) : certificate.checkIP(host)) !== undefined
}

async function readPem(path: string, setting: string): Promise<string> {
  try {
    await using file = await open(path, 'r')
    const buffer = Buffer.alloc(PEM_BYTES_MAX + 1)
    let length = 0
    for (let bytesRead = 1; bytesRead > 0 && length < buffer.length; length += bytesRead) {
      bytesRead = (await file.read(buffer, length, buffer.length - length)).bytesRead
    }
    if (length > PEM_BYTES_MAX) throw new RangeError(`it has more than ${PEM_BYTES_MAX} bytes`)
    return buffer.toString('latin1', 0, length)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    const reason = code === 'ENOENT' ? 'there is no such file' : reasonOf(error)
    throw unusable(`${setting}: ${path} cannot be read: ${reason}`, error)
  }
}

/** The own certificate and its chain. All are read, so that a broken one is found here and not by clients. */
function chainIn(text: string, path: string): [X509Certificate, ...X509Certificate[]] {
  const blocks = text.match(CERTIFICATE) ?? []
  const [own, ...chain] = blocks.map((block, at) => {
    try {
      return new X509Certificate(block)
    } catch (error) {
      throw unusable(`certificate ${at + 1} in ${path} cannot be read: ${reasonOf(error)}`, error)
    }
  })
  if (own !== undefined) return [own, ...chain]
  throw unusable(`${path} holds no certificate: it must be PEM, the own certificate first, then its chain`)
}

function keyIn(text: string, path: string): KeyObject {
  const isEncrypted = text.includes('ENCRYPTED')
  try {
    return createPrivateKey({ key: text, format: 'pem' })
  } catch (error) {
    const why = isEncrypted
      ? 'it is encrypted: store it without a passphrase, readable for the node alone'
      : 'it must be an unencrypted private key in PEM'
    throw unusable(`${path} holds no key that can be used: ${why}`, error)
  }
}

function unusable(message: string, cause?: unknown): CodedError<'PUBLIC_TLS_UNUSABLE'> {
  return new CodedError('PUBLIC_TLS_UNUSABLE', message, cause === undefined ? undefined : { cause })
}
