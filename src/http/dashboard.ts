import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Mount } from './server/mount.ts'

/** Output of `npm run build`. The path is two folders up from both src/ and dist/. */
const BUILT = fileURLToPath(new URL('../../dist/dashboard', import.meta.url))
/** Only a checkout has this file. */
const BUILDER = fileURLToPath(new URL('../../dashboard/build.ts', import.meta.url))
/** A build takes 3 s on an idle machine. After the limit the page says how to build it by hand. */
const BUILD_MS_MAX = 60_000

/** Only resources of this server, nothing inline, no frames. */
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
const NOT_BUILT = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Stoa: the dashboard is not built</title></head><body>
<h1>The dashboard is not built</h1>
<p>This node runs from its source and could not build the dashboard. This command builds it, or says what is missing.
Then load this page again; the node need not restart:</p>
<pre>npm run build:dashboard</pre>
<p>Until then <a href="/docs">the API and its documentation</a> answer as always.</p>
</body></html>
`
const mediaTypes: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}
/** Smallest first. Browsers accept Brotli only on loopback and over TLS. */
const encodings = [
  { name: 'br', suffix: '.br' },
  { name: 'gzip', suffix: '.gz' },
] as const

type DashboardFiles = Map<string, { bytes: Buffer; etag: string; type: string | undefined }>

/**
 * Serves the dashboard: a page that uses this API like any other client. Its files contain nothing private and are
 * served without the token on any interface. The page asks for the token. All files are read into memory, so a request
 * never names a file on the disk.
 */
export function dashboardMount(directory = BUILT, build = buildFromSource): Mount {
  let built: DashboardFiles | undefined
  let builtAt: number | undefined
  let building: Promise<void> | undefined

  /** Returns the current build. A newer build is loaded without a restart. */
  async function newest(): Promise<DashboardFiles | undefined> {
    const at = await stat(join(directory, 'index.html')).then(
      ({ mtimeMs }) => mtimeMs,
      () => undefined,
    )
    if (at === undefined || at === builtAt) return built
    // A read may fail while a build is being copied. The next request reads it again.
    const read = await readBuilt(directory).catch(() => undefined)
    if (read === undefined) return built
    builtAt = at
    return read
  }

  return {
    path: '/dashboard',
    methods: ['GET'],
    requestHeaders: [],
    access: () => 'health',
    scope: () => 'read',
    async handle({ request, response, rest }) {
      // Anyone who can connect may read it, but pages of other sites cannot embed it.
      response.removeHeader('access-control-allow-origin')
      response.setHeader('cross-origin-resource-policy', 'same-origin')
      response.setHeader('cross-origin-opener-policy', 'same-origin')
      response.setHeader('content-security-policy', CSP)
      response.setHeader('cache-control', 'no-cache')
      building ??= build()
      await building
      const path = rest.split('?', 1)[0]!
      if (built === undefined || !path.startsWith('/assets/')) built = await newest()
      // Serve index.html for unknown names, and for names of compressed copies, which have no type.
      const name = built?.get(path.slice(1))?.type === undefined ? 'index.html' : path.slice(1)
      const file = built?.get(name)
      if (built === undefined || file === undefined) {
        response.writeHead(503, { 'content-type': mediaTypes['.html']! }).end(NOT_BUILT)
        return
      }
      if (name === 'index.html' && path.startsWith('/assets/')) {
        response.writeHead(404, { 'content-type': 'text/plain; charset=utf-8' }).end('no such file: reload the page\n')
        return
      }
      if (path.startsWith('/assets/')) response.setHeader('cache-control', 'public, max-age=31536000, immutable')
      const accepted = String(request.headers['accept-encoding'] ?? '').split(/[\s,;]+/)
      const encoding = encodings.find((one) => accepted.includes(one.name) && built?.has(name + one.suffix) === true)
      const { bytes, etag } = encoding === undefined ? file : built.get(name + encoding.suffix)!
      response.setHeader('vary', 'Accept-Encoding')
      response.setHeader('etag', etag)
      if (request.headers['if-none-match'] === etag) {
        response.writeHead(304).end()
        return
      }
      if (encoding !== undefined) response.setHeader('content-encoding', encoding.name)
      response.writeHead(200, { 'content-type': file.type!, 'content-length': bytes.length }).end(bytes)
    },
  }
}

/** In a checkout, builds the dashboard if it is missing or older than its source. The build gets no variable of ours. */
function buildFromSource(): Promise<void> {
  if (!existsSync(BUILDER)) return Promise.resolve()
  const options = { env: {}, timeout: BUILD_MS_MAX }
  return new Promise((resolve) => execFile(process.execPath, [BUILDER, '--if-older'], options, () => resolve()))
}

/** Returns undefined if the dashboard is not built, or is being built. */
async function readBuilt(directory: string): Promise<DashboardFiles | undefined> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch(() => [])
  const files: DashboardFiles = new Map()
  for (const entry of entries) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    const bytes = await readFile(path)
    const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`
    const name = path.slice(directory.length + 1).replaceAll('\\', '/')
    files.set(name, { bytes, etag, type: mediaTypes[extname(name)] })
  }
  return files.has('index.html') ? files : undefined
}
