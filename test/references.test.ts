/** A reference leads somewhere: D7 to the contract, T7 to the threats, ADR-7 to a decision record, a link to a file and a heading. */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { expect, test } from 'vitest'

const root = new URL('..', import.meta.url).pathname
const read = (path: string) => readFileSync(join(root, path), 'utf8')
const list = (...patterns: string[]) => globSync(patterns, { cwd: root }).sort()

const pages = list('*.md', 'docs/**/*.md')
const sources = list('{src,test,dashboard,devnet,bench,docs,deploy}/**/*.{ts,tsx,yaml,sol,env,service}', '*.ts')
const texts = [...pages, ...sources].map((path) => ({ path, text: read(path) }))

/** The numbers that a page explains: each has a heading of its own, so that `#d7` leads to it. */
const numbersOf = (page: string, letter: string) =>
  [...read(page).matchAll(new RegExp(`^### ${letter}(\\d+)$`, 'gm'))].map(([, number]) => Number(number))
const decisions = numbersOf('docs/contract.md', 'D')
const threats = numbersOf('docs/threats.md', 'T')
const records = list('docs/decisions/*.md').map((path) => ({ path, number: Number(/\/(\d{4})-/.exec(path)?.[1]) }))

const known = new Set([
  ...decisions.map((number) => `D${number}`),
  ...threats.map((number) => `T${number}`),
  ...records.map(({ number }) => `ADR-${number}`),
])

/** What a text cites: `D7`, `T7`, `ADR-7`. Not a part of a word, a path, a hex or base64 text, or a time such as `T00`. */
const citations = (text: string) =>
  [...text.matchAll(/(?<![\w$+/.-])(?:[DT]|ADR-)[1-9]\d*(?![\w+/=])/g)].map(([it]) => it)
const strays = (text: string) => citations(text).filter((it) => !known.has(it))

/** Citations in a form that nobody finds by searching: of a record by its bare number, of a list that is not in the repository. */
const unclearForms = [
  /\bADR ?\d+/g,
  /\bdecisions? \d+/gi,
  /\b(?:test|describe|it)(?:\.[\w.]+)?\((?:.*\)\()?['"`]\d+\.\d+ [^'"`]*/g,
]
const unclear = (text: string) => unclearForms.flatMap((form) => [...text.matchAll(form)].map(([it]) => it))

const uncoded = (text: string) => text.replace(/^```[\s\S]*?^```$/gm, '').replace(/`[^`\n]*`/g, '')

/** The anchors of a page, as GitHub makes them of headings, and those that it sets itself. */
function anchorsOf(path: string): Set<string> {
  const text = read(path).replace(/^```[\s\S]*?^```$/gm, '')
  const anchors = [...text.matchAll(/<a id="([^"]+)">/g)].map(([, id]) => id!)
  const met = new Map<string, number>()
  for (const [, heading] of text.matchAll(/^#+ (.+)$/gm)) {
    const plain = heading!.replace(/<[^>]*>/g, '').replace(/\]\([^)]*\)/g, '')
    const slug = plain.toLowerCase().replace(/[^\p{L}\p{N}_\- ]/gu, '')
    const name = slug.replaceAll(' ', '-')
    const times = met.get(name) ?? 0
    met.set(name, times + 1)
    anchors.push(times === 0 ? name : `${name}-${times}`)
  }
  return new Set(anchors)
}

/** The links of a text on `page` that lead to no file, to no heading of it, or to another record than they say. */
function deadLinks(page: string, text: string): string[] {
  const dead: string[] = []
  for (const [, shown, target = ''] of uncoded(text).matchAll(/\[([^\]]*)\]\(([^)\s]+)\)/g)) {
    if (/^(https?|mailto):/.test(target)) continue
    const [path = '', anchor] = target.split('#')
    const file = path === '' ? page : relative(root, resolve(root, dirname(page), path))
    const record = /^ADR-(\d+)$/.exec(shown!)?.[1]
    const isThere = existsSync(join(root, file)) && (anchor === undefined || anchorsOf(file).has(anchor))
    const isMeant = record === undefined || records.some((it) => it.path === file && it.number === Number(record))
    if (!isThere || !isMeant) dead.push(`[${shown}](${target})`)
  }
  return dead
}

test('the contract and the threats explain each number once, without a gap', () => {
  const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1)
  const rising = (numbers: number[]) => numbers.toSorted((a, b) => a - b)
  expect(decisions.length).toBeGreaterThanOrEqual(52)
  expect(threats.length).toBeGreaterThanOrEqual(33)
  expect(rising(decisions)).toEqual(upTo(decisions.length))
  expect(rising(threats)).toEqual(upTo(threats.length))
  expect(records.map(({ number }) => number)).toEqual(upTo(records.length))
  for (const { path, number } of records) expect(read(path), path).toMatch(new RegExp(`^# ADR-${number}: `))
  // What a page says of all of them.
  const last = { D: decisions.length, T: threats.length }
  for (const path of pages) {
    for (const [range, letter, end] of read(path).matchAll(/\b([DT])1 to [DT](\d+)\b/g)) {
      expect(Number(end), `${path}: ${range}`).toBe(last[letter as 'D' | 'T'])
    }
  }
})

test('every D, T and ADR that code, tests and pages cite leads somewhere', () => {
  expect(texts.flatMap(({ path, text }) => strays(text).map((it) => `${path}: ${it}`))).toEqual([])
})

test('a decision record is cited as ADR-7, and no test is named by a number that leads nowhere', () => {
  expect(texts.flatMap(({ path, text }) => unclear(text).map((it) => `${path}: ${it}`))).toEqual([])
})

test('every link between the pages, and to files of the repository, leads somewhere', () => {
  expect(pages.flatMap((page) => deadLinks(page, read(page)).map((link) => `${page}: ${link}`))).toEqual([])
})

/** The files that docs/where-to-change.md names, each with the names in it that the page gives in brackets. */
const placesIn = (page: string) =>
  [...page.matchAll(/`([\w.#-]+(?:\/[\w.-]+)*\.(?:tsx?|md|json|yaml)|[\w-]+(?:\/[\w.-]+)*\/)`(?: \(([^)]*)\))?/g)].map(
    ([, path = '', names = '']) => ({ path, names: [...names.matchAll(/`(#?\w+)`/g)].map(([, name]) => name!) }),
  )

test('every file that the page on changes names is there, and holds the names that the page gives', () => {
  const places = placesIn(read('docs/where-to-change.md'))
  expect(places.length).toBeGreaterThan(150)
  const pathOf = (path: string) => [`src/${path}`, path].find((it) => existsSync(join(root, it)))
  expect(places.filter(({ path }) => pathOf(path) === undefined).map(({ path }) => path)).toEqual([])
  const strange = places.flatMap(({ path, names }) => {
    const text = names.length === 0 ? '' : read(pathOf(path)!)
    return names.filter((name) => !new RegExp(`(?<!\\w)${name}\\b`).test(text)).map((name) => `${path}: ${name}`)
  })
  expect(strange).toEqual([])
})

test('every threat names its cure and tests that name the threat', () => {
  const threatened = read('docs/threats.md').split('## Hazards of payment channels')[0]!
  const sections = threatened.split(/^### /m).slice(1)
  for (const section of sections) {
    const threat = /^T\d+/.exec(section)![0]
    const named = [...section.matchAll(/`((?:src|test|dashboard)\/[^`]+)`/g)].map(([, path]) => path!)
    const tests = named.filter((path) => path.endsWith('.test.ts'))
    expect(
      named.filter((path) => !existsSync(join(root, path))),
      threat,
    ).toEqual([])
    expect(named.length, `${threat} names a cure`).toBeGreaterThan(tests.length)
    expect(tests.length, `${threat} names a test`).toBeGreaterThan(0)
    expect(
      tests.filter((path) => !citations(read(path)).includes(threat)),
      `tests that do not name ${threat}`,
    ).toEqual([])
  }
})

test.each([
  ['payment channels', 4, 24],
  ['the doors', 7, 22],
])('every hazard of %s has a named test that closes or bounds it', (of, group, count) => {
  const table = read('docs/threats.md').split(`## Hazards of ${of}`)[1]!.split(/^## /m)[0]!
  const rows = [...table.matchAll(new RegExp(`^\\| (${group}\\.\\d+) \\| [^|]+ \\| (.+) \\|$`, 'gm'))]
  expect(rows.map(([, number]) => number)).toEqual(Array.from({ length: count }, (_, index) => `${group}.${index + 1}`))
  const citations = new RegExp(`\\bhazard (${group}\\.\\d+)`, 'g')
  const cited = texts.flatMap(({ text }) => [...text.matchAll(citations)].map(([, number]) => number))
  expect(cited.filter((number) => !rows.some((row) => row[1] === number))).toEqual([])
  for (const [, number, tests] of rows) {
    const named = [...tests!.matchAll(/`([^`]+\.test\.ts)` "([^"]+)"/g)]
    expect(named.length, `hazard ${number} names a test`).toBeGreaterThan(0)
    const missing = named.filter(([, path, name]) => !existsSync(join(root, path!)) || !read(path!).includes(name!))
    expect(
      missing.map(([, path, name]) => `${path}: ${name}`),
      `hazard ${number}`,
    ).toEqual([])
  }
})

test('a wrong reference is found, and what only looks like one is not', () => {
  const planted = ['D', 'T', 'ADR-'].map((letters) => `${letters}${999}`)
  expect(strays(`As ${planted.join(' and (')}) say, see D1, D5–D9, T1: and ADR-1.`)).toEqual(planted)
  expect(strays('2026-01-01T00:00Z, T0, 0xD999, +T999, T999=, wss://x/D999/y, /D999/, ZD999, D999b')).toEqual([])
  expect(unclear(`[decision ${9}](decisions/x.md), ADR ${9}, test('${4}.${6} a client', …)`)).toHaveLength(3)
  expect(unclear('ADR-9; the decision of 9 people; test.each([1])("a price of 4.6 USDC")')).toEqual([])
  const links = [
    '[a](gone.md)',
    '[b](contract.md#d0)',
    '[c](#nowhere)',
    `[ADR-${2}](decisions/0001-decision-records.md)`,
  ]
  expect(deadLinks('docs/security.md', `${links.join(' ')} [d](contract.md#d1) [e](../README.md) \`[f](g)\``)).toEqual(
    links,
  )
})
