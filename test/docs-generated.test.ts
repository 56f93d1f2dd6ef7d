import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { filledIn, pages, pageUrl } from '../docs/generate.ts'

test.each(Object.keys(pages))('docs/%s says what the schemas say', (name) => {
  const page = readFileSync(pageUrl(name), 'utf8')
  expect(filledIn(page, pages[name]!()) === page, 'run: npm run docs').toBe(true)
})

test('every link inside the references leads somewhere', () => {
  for (const name of Object.keys(pages)) {
    const page = readFileSync(pageUrl(name), 'utf8')
    const ids = new Set([...page.matchAll(/<a id="([^"]+)">/g)].map(([, id]) => id))
    for (const [, heading] of page.matchAll(/^#+ (.+)$/gm)) {
      ids.add(heading!.toLowerCase().replace(/[`.]/g, '').replaceAll(' ', '-'))
    }
    for (const [, target] of page.matchAll(/\]\(#([^)]+)\)/g)) expect([...ids], `${name}: ${target}`).toContain(target)
  }
})

test('no table of the references is empty', () => {
  for (const name of Object.keys(pages)) {
    const page = readFileSync(pageUrl(name), 'utf8')
    expect(page.match(/^#+ [^\n]+\n+\|[^\n]+\n\|[-|]+\|\n(?!\|)/gm), name).toBeNull()
  }
})
