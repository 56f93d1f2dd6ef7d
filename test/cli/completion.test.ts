import { execFile, execFileSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { cli, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const run = promisify(execFile)
const has = (shell: string) => {
  try {
    execFileSync(shell, ['-c', 'true'])
    return true
  } catch {
    return false
  }
}
async function script(shell: string): Promise<string> {
  const path = join(dataDir(), `completion.${shell}`)
  await writeFile(path, (await cli(['completion', shell])).stdout)
  return path
}

/** What Tab offers after these words, the last of them unfinished. */
async function bash(...words: string[]): Promise<string[]> {
  const program =
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the shell's, not ours
    'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _stoa; printf "%s\\n" "${COMPREPLY[@]}"'
  const { stdout } = await run('bash', ['-c', program, 'bash', await script('bash'), 'stoa', ...words])
  return stdout.split('\n').filter((line) => line !== '')
}

test.skipIf(!has('bash'))(
  'bash completes commands, groups, options and their values as the table has them',
  async () => {
    expect(await bash('sta')).toEqual(expect.arrayContaining(['start', 'status']))
    expect(await bash('sta')).not.toContain('wallet')
    expect(await bash('agent', 'config', '')).toEqual(['add', 'list', 'remove', '--help'])
    expect(await bash('agent', 'discover', '--max')).toEqual(['--max-price'])
    expect(await bash('agent', 'discover', '--sort', '')).toEqual(['rank', 'price', 'newest'])
    expect(await bash('wallet', 'b')).toEqual(['balance'])
    expect(await bash('init', '--wallet', 'i')).toEqual(['import'])
    expect(await bash('agent', 'execute', '--agent-id', 'x', '--ta')).toEqual(['--task'])
  },
)

test.skipIf(!has('zsh'))('zsh reads its script', async () => {
  await run('zsh', ['-c', `autoload -U compinit; compinit -D; source ${await script('zsh')}; (( $+functions[_stoa] ))`])
})

test.skipIf(!has('fish'))('fish offers the commands', async () => {
  const { stdout } = await run('fish', ['-c', `source ${await script('fish')}; complete -C 'stoa agent '`])
  expect(stdout).toMatch(/^discover\t/m)
})

test('each script names every command', async () => {
  for (const shell of ['bash', 'zsh', 'fish']) {
    const { stdout } = await cli(['completion', shell])
    for (const word of ['start', 'discover', 'workflow', 'doctor', 'completion']) expect(stdout).toContain(word)
  }
  expect(await cli(['completion'])).toMatchObject({ code: 2, stderr: expect.stringContaining('which shell') })
})
