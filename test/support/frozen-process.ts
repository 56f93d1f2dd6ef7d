/** A separate process that stops like a frozen machine in the middle of a change: it has put the row `frozen` of `kv`. */
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { run, steps } from '../../src/store/query.ts'

const [address = '', leaseMs = ''] = process.argv.slice(2)
const ledger = await openPostgres({ address, leaseMs: Number(leaseMs) })
const put = (value: string) =>
  run("INSERT INTO kv (key, value) VALUES ('frozen', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", value)
await ledger.commit(put('before'))
process.stdout.write(`${ledger.process}\n`)
const change = steps(function* () {
  yield* put('late')
  process.kill(process.pid, 'SIGSTOP')
  yield* put('later')
})
const outcome = await ledger.commit(change).then(
  () => 'committed',
  ({ code }: { code: string }) => code,
)
process.stdout.write(`${outcome}\n`)
process.exit(0)
