import { AbsolutePathText, HostText, NetworkList, PortText, PublicUrlText } from '../../config/values.ts'
import { option, repeated } from '../command.ts'

/** Options of the listener where strangers buy over HTTP. */
export const publicOptions = {
  publicPort: option(
    '--public-port <port>',
    'port where strangers buy agents of this node over HTTP (default: they cannot)',
    PortText,
  ),
  publicHost: option('--public-host <host>', 'address of that listener (default: all addresses)', HostText),
  publicDoorUrl: option(
    '--public-listener-url <url>',
    'where clients reach that listener, such as https://agents.example.org (default: its own address)',
    PublicUrlText,
  ),
  publicTlsCert: option(
    '--public-tls-cert <path>',
    'PEM file with its certificate and the chain (default: plain HTTP)',
    AbsolutePathText,
  ),
  publicTlsKey: option('--public-tls-key <path>', 'PEM file with the key of that certificate', AbsolutePathText),
  trustedProxies: repeated(
    '--public-trusted-proxy <network>',
    'a proxy before that listener whose X-Forwarded-For is believed; may be repeated',
    NetworkList,
  ),
} as const
