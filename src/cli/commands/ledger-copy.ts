import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { describeRefusal } from '../../config/config-error.ts'
import { DatabaseUrlText } from '../../config/database-url.ts'
import { PathText } from '../../config/values.ts'
import type { LedgerPlace } from '../../store/copy/places.ts'
import { writeCopied } from '../../store/ledger-home.ts'
import { type Context, command, option, required } from '../command.ts'
import { UsageError } from '../exit-code.ts'
import { readSecretText } from '../text/secret-text.ts'
import { waiting } from '../text/spinner.ts'

export const ledgerCopy = command({
  name: 'ledger copy',
  local: true,
  summary: 'Copy a ledger from a data directory into PostgreSQL, or back',
  details:
    'A ledger is in a data directory, in a file such as copy.db, or in a PostgreSQL database. The URL of a database holds a password, so name the variable or the file that holds the URL: env:DATABASE_URL or file:/run/secrets/database-url. Stop the node first. The target must be empty. Every table is copied and compared. Nodes then refuse the source, because two nodes on two copies can pay twice and sell twice.',
  examples: [
    'stoa ledger copy --from ./seller --to env:DATABASE_URL',
    'stoa ledger copy --from file:/run/secrets/database-url --to ./seller',
    'stoa ledger copy --from backup.db --to env:DATABASE_URL --json',
  ],
  options: {
    from: required(
      option(
        '--from <place>',
        'the ledger to copy: a data directory, a file, env:<variable> or file:<path> (required)',
        PathText,
      ),
      '--from is missing: name a data directory, a file, or env:DATABASE_URL',
    ),
    to: required(
      option('--to <place>', 'where to copy it, in the same words; it must be empty (required)', PathText),
      '--to is missing: name a data directory, a file, or env:DATABASE_URL',
    ),
  },
  async run(context, { from, to }) {
    const [source, target] = [await placeOf(context, '--from', from), await placeOf(context, '--to', to)]
    const result = await waiting(context, 'copying', () => copy(source, target))
    const rows = result.tables.reduce((sum, table) => sum + table.rows, 0)
    context.printResult(result, [
      ...result.tables.filter((table) => table.rows > 0).map((table) => `${table.table}: ${table.rows}`),
      `copied ${rows} rows from ${result.from} to ${result.to}, and compared them`,
      `No node starts on ${result.from} any more. To continue with it instead, run stoa ledger adopt there.`,
    ])
  },
})

async function copy(source: LedgerPlace, target: LedgerPlace) {
  const [{ copyLedger }, { openSource, openTarget }] = await Promise.all([
    import('../../store/copy/copy-ledger.ts'),
    import('../../store/copy/places.ts'),
  ])
  const from = await openSource(source)
  try {
    const to = await openTarget(target)
    try {
      const tables = await copyLedger(from.database, to.database, to)
      await to.done()
      // Last: if anything above fails, the source is still the ledger.
      await writeCopied(from.database, to.name)
      return { from: from.name, to: to.name, tables }
    } finally {
      await to.close()
    }
  } finally {
    await from.close()
  }
}

/** Reads where a ledger is. The URL of a database never stands in the command line with its password. */
async function placeOf(context: Context, flag: string, text: string): Promise<LedgerPlace> {
  const [, kind, rest = ''] = /^(env|file):(.+)$/.exec(text) ?? []
  if (kind === 'file')
    return { kind: 'server', url: await readSecretText(context, rest, { flag, schema: DatabaseUrlText }) }
  if (kind === 'env') return { kind: 'server', url: urlOf(context, rest, context.io.environment[rest]) }
  if (/^postgres(ql)?:/i.test(text)) {
    context.redactor.add(text)
    const url = urlOf(context, flag, text)
    if (!hasPassword(url)) return { kind: 'server', url }
    const fix = `put the URL into a variable and name it: ${flag} env:DATABASE_URL`
    throw new UsageError(`${flag}: other users of this machine can read the password in a command line: ${fix}`)
  }
  const path = resolve(text)
  const entry = await stat(path).catch(() => undefined)
  const isFile = entry === undefined ? path.endsWith('.db') : entry.isFile()
  return { kind: isFile ? 'file' : 'directory', path }
}

function urlOf({ redactor }: Context, name: string, text: string | undefined): string {
  if (text === undefined || text.trim() === '')
    throw new UsageError(`${name} is not set: set it to the URL of the database`)
  redactor.add(text)
  const parsed = DatabaseUrlText.safeParse(text)
  if (parsed.success) return parsed.data
  throw new UsageError(describeRefusal(name, undefined, parsed.error.issues[0]!))
}

function hasPassword(text: string): boolean {
  const url = new URL(text)
  return url.password !== '' || url.searchParams.has('password')
}
