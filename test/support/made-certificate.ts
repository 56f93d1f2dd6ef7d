import { createPrivateKey, generateKeyPairSync, type KeyObject, randomBytes, sign, X509Certificate } from 'node:crypto'

export type MadeCertificate = { cert: string; key: string; privateKey: KeyObject; name: string }
type Options = {
  name?: string
  /** Names and IPv4 addresses that the certificate is for. */
  hosts?: string[]
  from?: Date
  until?: Date
  /** Who signs it. The default signs itself. */
  by?: MadeCertificate
  isAuthority?: boolean
}

/** Makes an X.509 certificate with a P-256 key, in DER written by hand, so that a test needs no program and no network. */
export function makeCertificate(options: Options = {}): MadeCertificate {
  const { name = 'stoa test', hosts = ['127.0.0.1', 'localhost'], by, isAuthority = false } = options
  const { from = new Date(Date.now() - 3_600_000), until = new Date(Date.now() + 30 * 86_400_000) } = options
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const extensions = [
    ...(isAuthority ? [extension('551d13', der(0x30, der(0x01, Buffer.from([0xff]))), true)] : []),
    extension('551d11', der(0x30, ...hosts.map(hostName))),
  ]
  const body = der(
    0x30,
    der(0xa0, integer(Buffer.from([2]))),
    integer(Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    ecdsaWithSha256,
    nameOf(by?.name ?? name),
    der(0x30, timeOf(from), timeOf(until)),
    nameOf(name),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, der(0x30, ...extensions)),
  )
  const signature = sign('sha256', body, by?.privateKey ?? privateKey)
  const whole = der(0x30, body, ecdsaWithSha256, der(0x03, Buffer.from([0]), signature))
  const cert = new X509Certificate(whole).toString()
  const key = privateKey.export({ type: 'pkcs8', format: 'pem' })
  return { cert, key, privateKey: createPrivateKey(key), name }
}

function der(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  const length = content.length
  const bytes = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...bytes]), content])
}

const integer = (bytes: Buffer) => der(0x02, bytes)
const identifier = (hex: string) => der(0x06, Buffer.from(hex, 'hex'))
const ecdsaWithSha256 = der(0x30, identifier('2a8648ce3d040302'))

function nameOf(commonName: string): Buffer {
  return der(0x30, der(0x31, der(0x30, identifier('550403'), der(0x0c, Buffer.from(commonName)))))
}

function timeOf(at: Date): Buffer {
  return der(0x18, Buffer.from(`${at.toISOString().replace(/[-:T]/g, '').slice(0, 14)}Z`))
}

function hostName(host: string): Buffer {
  const ip = host.split('.').map(Number)
  return ip.length === 4 && ip.every(Number.isInteger) ? der(0x87, Buffer.from(ip)) : der(0x82, Buffer.from(host))
}

function extension(id: string, value: Buffer, isCritical = false): Buffer {
  const critical = isCritical ? [der(0x01, Buffer.from([0xff]))] : []
  return der(0x30, identifier(id), ...critical, der(0x04, value))
}
