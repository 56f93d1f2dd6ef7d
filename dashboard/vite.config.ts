import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import react from '@vitejs/plugin-react'
import { defineConfig, type Plugin } from 'vite'

/** Also writes each text file as Brotli and gzip, so that the node compresses nothing at run time. */
function compressed(): Plugin {
  let outDir = ''
  return {
    name: 'compressed',
    apply: 'build',
    configResolved(config) {
      outDir = config.build.outDir
    },
    closeBundle() {
      for (const name of readdirSync(outDir, { recursive: true, encoding: 'utf8' })) {
        if (!/\.(html|js|css|svg)$/.test(name)) continue
        const bytes = readFileSync(join(outDir, name))
        writeFileSync(join(outDir, `${name}.br`), brotliCompressSync(bytes))
        writeFileSync(join(outDir, `${name}.gz`), gzipSync(bytes, { level: 9 }))
      }
    },
  }
}

const node = 'http://127.0.0.1:8424'

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  base: '/dashboard/',
  plugins: [react(), compressed()],
  build: {
    target: 'es2023',
    // The content policy of the page allows no `data:` scripts, and every file must be hashed.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  // `npm run dev:dashboard` runs beside a node.
  server: { port: 8425, host: '127.0.0.1', proxy: { '/api': node } },
})
