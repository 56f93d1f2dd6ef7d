/** Passes TCP connections of this namespace on to a unix socket, which all namespaces share: `proxy.ts host port path …` */
import { connect, createServer } from 'node:net'

const [host, ...pairs] = process.argv.slice(2)
for (let at = 0; at < pairs.length; at += 2) {
  const server = createServer((near) => {
    const far = connect(pairs[at + 1]!)
    near.on('error', () => far.destroy()).on('close', () => far.destroy())
    far.on('error', () => near.destroy()).on('close', () => near.destroy())
    near.pipe(far).pipe(near)
  })
  await new Promise<void>((resolve) => server.listen(Number(pairs[at]), host, resolve))
}
process.stdout.write('listening\n')
