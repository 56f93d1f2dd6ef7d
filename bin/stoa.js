#!/usr/bin/env node
// A checkout runs its TypeScript source as it is; the published package, which has no source, runs dist/.
import { existsSync, lstatSync, mkdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

// An older Node.js fails on what it does not know, and says nothing that helps.
const [major, minor] = process.versions.node.split('.').map(Number)
if (major < 22 || (major === 22 && minor < 18)) {
  process.stderr.write(
    `error: stoa needs Node.js 22.18 or newer; this is ${process.version} (${process.execPath}).\n` +
      'Get one at https://nodejs.org/en/download, or with a version manager: nvm install 26, fnm install 26.\n' +
      'In a checkout npm install brings one along, and `npx .` uses it.\n',
  )
  process.exit(1)
}
const { enableCompileCache, registerHooks } = await import('node:module')
keepCompiled()
const source = new URL('../src/main.ts', import.meta.url)
const isCheckout = existsSync(source)
if (isCheckout && !existsSync(new URL('../node_modules/zod', import.meta.url))) {
  if (/^(?:-V|--version)$/.test(process.argv[2])) {
    const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
    process.stdout.write(`${version}\n`)
    process.exit(0)
  }
  process.stderr.write('error: the packages that stoa is made of are not here yet: run npm install in the checkout\n')
  process.exit(1)
}
if (isCheckout) await loadZod()
await import(isCheckout ? source.href : new URL('../dist/node/main.js', import.meta.url).href)

/**
 * Node would keep compiled code where any user may have put some before, which it takes for this program's: here nobody else can.
 */
function keepCompiled() {
  if (process.getuid === undefined) {
    enableCompileCache()
    return
  }
  const directory = join(tmpdir(), `stoa-${process.getuid()}`)
  try {
    // Not `recursive`: Node.js then tries for ever where the folder above refuses new entries with ENOENT, as /proc does.
    if (!existsSync(directory)) mkdirSync(directory, { mode: 0o700 })
    const found = lstatSync(directory)
    if (!found.isDirectory() || found.uid !== process.getuid() || (found.mode & 0o022) !== 0) return
  } catch {
    return
  }
  enableCompileCache(directory)
}

/**
 * Zod brings its messages in sixty languages, a file each, which take a tenth of a start and which nothing here asks for.
 * The bundle in dist/ leaves them out by itself; so does this. English is not among them.
 */
async function loadZod() {
  const translations = { url: 'data:text/javascript,export {}', format: 'module', shortCircuit: true }
  const hooks = registerHooks({
    resolve: (specifier, context, next) =>
      specifier === '../locales/index.js' ? translations : next(specifier, context),
  })
  await import('zod')
  hooks.deregister()
}
