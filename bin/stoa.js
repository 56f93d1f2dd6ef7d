#!/usr/bin/env node
// A checkout runs its TypeScript source. The published package has no source and runs dist/.
import { existsSync, lstatSync, mkdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

// An older Node.js fails on unknown syntax with a message that does not name the cause.
const [major, minor] = process.versions.node.split('.').map(Number)
if (major < 22 || (major === 22 && minor < 18)) {
  process.stderr.write(
    `error: stoa needs Node.js 22.18 or newer; this is ${process.version} (${process.execPath}).\n` +
      'Get one at https://nodejs.org/en/download, or with a version manager: nvm install 26, fnm install 26.\n' +
      'In a checkout npm install brings one along, and `npx .` uses it.\n',
  )
  process.exit(1)
}
if (process.platform === 'win32') {
  process.stderr.write(
    'error: stoa does not run on Windows: it cannot end the programs of agents there, or keep keys from other users.\n' +
      'Run it in the Windows Subsystem for Linux: https://learn.microsoft.com/windows/wsl/install\n',
  )
  process.exit(1)
}
const { enableCompileCache, registerHooks } = await import('node:module')
keepCompiled()
hideSqliteWarning()
const source = new URL('../src/main.ts', import.meta.url)
const isCheckout = existsSync(source)
const asksVersion = /^(?:-V|--version)$/.test(process.argv[2])
// The build writes older syntax. Node.js 22 does not know `await using` of the source.
if (isCheckout && major < 24 && !asksVersion) {
  process.stderr.write(
    `error: a checkout of stoa needs Node.js 24 or newer; this is ${process.version} (${process.execPath}).\n` +
      'npm install brings one along: run npm install in the checkout, and type `npx .` there.\n',
  )
  process.exit(1)
}
if (isCheckout && !existsSync(new URL('../node_modules/zod', import.meta.url))) {
  if (asksVersion) {
    const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
    process.stdout.write(`${version}\n`)
    process.exit(0)
  }
  process.stderr.write('error: the packages that stoa is made of are not here yet: run npm install in the checkout\n')
  process.exit(1)
}
const built = new URL('../dist/node/main.js', import.meta.url)
if (!isCheckout && !existsSync(built)) {
  // npm builds nothing when it installs from a git address.
  process.stderr.write(
    'error: this copy of stoa has no program in dist/, as after npm install of a git address.\n' +
      'Clone the repository, run npm install and npm pack there, and install the stoa-*.tgz that npm pack writes.\n',
  )
  process.exit(1)
}
if (isCheckout) await loadZod()
await import(isCheckout ? source.href : built.href)

/**
 * Keeps the compile cache in a directory of this user alone. Node's default directory is shared: another user could
 * place code there, and Node would run the code as part of this program.
 */
function keepCompiled() {
  const directory = join(tmpdir(), `stoa-${process.getuid()}`)
  try {
    // Not `recursive`: Node.js then retries forever where the parent directory refuses new entries with ENOENT, as
    // /proc does.
    if (!existsSync(directory)) mkdirSync(directory, { mode: 0o700 })
    const found = lstatSync(directory)
    if (!found.isDirectory() || found.uid !== process.getuid() || (found.mode & 0o022) !== 0) return
  } catch {
    return
  }
  enableCompileCache(directory)
}

/** Node.js 22 and 24 call SQLite experimental. No user can do anything about it. Other warnings are printed as ever. */
function hideSqliteWarning() {
  for (const print of process.listeners('warning')) {
    process.off('warning', print)
    process.on('warning', (warning) => {
      if (warning.name !== 'ExperimentalWarning' || !warning.message.startsWith('SQLite ')) print(warning)
    })
  }
}

/**
 * Leaves out zod's translated messages: sixty languages, one file each, a tenth of the start time, and unused here. The
 * bundle in dist/ leaves them out too. English is kept.
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
