/**
 * Bundles the node into dist/node: a start reads a few files of ours there instead of some 250, and zod and commander with
 * them, which is most of what it takes beyond libp2p's own. What loads when first used stays apart; all other packages stay
 * in node_modules.
 *
 * All files lie in one folder, as deep as those of src/, so that what a file looks for beside itself is found either way.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

const bundled = ['commander', 'zod']

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url))
const isOurs = (id: string) => id.startsWith('.') || id.startsWith('/')

const bundle = await rolldown({
  input: {
    main: at('src/main.ts'),
    index: at('src/index.ts'),
    'builtin-worker': at('src/agents/builtin/builtin-worker.ts'),
    'signature-worker': at('src/p2p/signature-worker.ts'),
  },
  platform: 'node',
  external: (id) => !isOurs(id) && !bundled.includes(id.split('/')[0]!),
})
await bundle.write({ dir: at('dist/node'), format: 'esm', chunkFileNames: '[name]-[hash].js' })
await bundle.close()

/** Their licences ask to go where their code goes. */
const notices = bundled.map((name) => `${name}\n\n${readFileSync(at(`node_modules/${name}/LICENSE`), 'utf8').trim()}\n`)
writeFileSync(at('dist/node/LICENSES.txt'), `This folder holds code of these packages.\n\n${notices.join('\n---\n\n')}`)
