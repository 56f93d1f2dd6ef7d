import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'

export type DocBlock = { language: string; mark: string; code: string }

/** Finds the marked code blocks of a page: ```sh run, ```sh node, ```ts seller … */
export function blocksOf(page: string): DocBlock[] {
  const text = readFileSync(new URL(`../../docs/${page}`, import.meta.url), 'utf8')
  return [...text.matchAll(/^```(\w+) (\w+)\n([\s\S]*?)^```$/gm)].map(([, language = '', mark = '', code = '']) => ({
    language,
    mark,
    code,
  }))
}

/** The code of one marked block. @throws Error if the page has no such block */
export function codeOf(page: string, mark: string, language = 'ts'): string {
  const block = blocksOf(page).find((one) => one.mark === mark && one.language === language)
  if (block === undefined) throw new Error(`${page} has no \`\`\`${language} ${mark}`)
  return block.code
}

/** Python samples run only where Python is installed. */
export function hasPython(): Promise<boolean> {
  return promisify(execFile)('python3', ['--version']).then(
    () => true,
    () => false,
  )
}
