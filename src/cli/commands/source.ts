import type { Source } from '../../schema/source.ts'
import { command } from '../command.ts'
import { exitCodes } from '../exit-code.ts'
import { remoteNode } from '../node-access/remote-node.ts'
import { printList } from '../text/market-text.ts'
import { printableLine } from '../text/terminal-text.ts'

const list = {
  none: 'no catalogs: add one under `sources` in config.yaml',
  headings: ['NAME', 'STATE', 'BY', 'ENTRIES', 'TIME', 'URL'],
  cells: ({ name, state, way, entries, latency_ms: ms, url }: Source) => [
    ...[name, state, way ?? '', entries === undefined ? '' : `${entries}`, ms === undefined ? '' : `${ms} ms`],
    printableLine(url),
  ],
}

export const sourceList = command({
  name: 'source list',
  summary: 'List the catalogs that are searched beside the market',
  details:
    'The catalogs are set in config.yaml, under sources. A catalog is asked only when somebody searches: stoa agent discover --sources.',
  examples: ['stoa source list', 'stoa source list --json'],
  async run(context, flags) {
    const node = await remoteNode(context, flags)
    const sources = await node.sources({ signal: context.io.signal })
    printList(context, sources, list)
    for (const { name, error } of context.json ? [] : sources) {
      if (error !== undefined) context.tell(context.style.stderr.yellow(printableLine(`${name}: ${error}`, 300)))
    }
  },
})

export const sourceTest = command({
  name: 'source test',
  summary: 'Ask the catalogs now, and show whether they answer',
  argument: { name: 'name', isOptional: true, description: 'name of a catalog; default: all of them' },
  examples: ['stoa source test', 'stoa source test cdp'],
  async run(context, flags, given) {
    const node = await remoteNode(context, flags)
    const { signal } = context.io
    const names = given === undefined ? (await node.sources({ signal })).map(({ name }) => name) : [given]
    const sources: Source[] = []
    for (const name of names) sources.push(await node.testSource(name, { signal }))
    printList(context, sources, list)
    const failed = sources.filter(({ state }) => state === 'failed')
    for (const { name, error = '' } of context.json ? [] : failed) {
      context.tell(context.style.stderr.yellow(printableLine(`${name}: ${error}`, 300)))
    }
    return failed.length === 0 ? exitCodes.done : exitCodes.failed
  },
})
