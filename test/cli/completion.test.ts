import { execFile, execFileSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { openTerminal } from '../support/terminal.ts'
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

test.skipIf(!has('bash'))('bash completes the commands, groups, options and values of the table', async () => {
  expect(await bash('sta')).toEqual(expect.arrayContaining(['start', 'status']))
  expect(await bash('sta')).not.toContain('wallet')
  expect(await bash('agent', 'config', '')).toEqual(['add', 'list', 'remove', '--help'])
  expect(await bash('agent', 'discover', '--max')).toEqual(['--max-price'])
  expect(await bash('agent', 'discover', '--sort', '')).toEqual(['rank', 'price', 'newest'])
  expect(await bash('wallet', 'b')).toEqual(['balance'])
  expect(await bash('init', '--wallet', 'i')).toEqual(['import'])
  expect(await bash('agent', 'execute', '--agent-id', 'x', '--ta')).toEqual(['--task'])
})

const everywhere: [line: string, offered: string[]][] = [
  ['stoa agent execute --agent-id agent --ta', ['--task']],
  ['stoa agent discover --sort ', ['newest', 'price', 'rank']],
  ['stoa --data-dir /x agent config ', ['add', 'list', 'remove']],
  ['stoa workflow run --file /etc/pass', ['/etc/passwd']],
  ['stoa receipts verify /etc/pass', ['/etc/passwd']],
]

test.skipIf(!has('zsh'))('zsh completes and describes, in a terminal', async () => {
  const zsh = openTerminal(['-f'], { program: 'zsh', environment: {}, columns: 120, rows: 40 })
  try {
    await zsh.shows(/[%#] ?$/m)
    zsh.type(`autoload -U compinit; compinit -D; source ${await script('zsh')}; PS1='ready '\r`)
    await zsh.shows(/^ready $/m)
    zsh.type('stoa agent\t \t')
    await zsh.shows(/^config +-- The agents this node sells[\s\S]*^update +-- Change an agent/m)
    for (const [line, offered] of everywhere) {
      zsh.type(`\u0015\u000c${line}\t`)
      if (offered.length > 1)
        for (const word of offered) await zsh.shows(new RegExp(`^ready ${line.trim()}[\\s\\S]*\\b${word}\\b`, 'm'))
      else await zsh.shows(new RegExp(`^ready stoa .* ${offered[0]} ?$`, 'm'))
    }
  } finally {
    zsh.kill()
    await zsh.exited
  }
})

test.skipIf(!has('fish'))('fish completes and describes, and accepts its script', async () => {
  const path = await script('fish')
  const fish = async (line: string) => {
    const { stdout, stderr } = await run('fish', ['--no-config', '-c', `source ${path}; complete -C '${line}'`])
    expect(stderr).toBe('')
    return stdout.trimEnd().split('\n')
  }
  expect(await fish('stoa ')).toContain('agent\tFind agents, send them tasks, and set up your own')
  for (const [line, offered] of everywhere) {
    const words = (await fish(line)).map((text) => text.split('\t')[0])
    expect(
      words.filter((word) => offered.includes(word!)),
      line,
    ).toEqual(offered)
    expect(
      words.every((word) => /passwd|^-*[a-z]+$/.test(word!)),
      line,
    ).toBe(true)
  }
})

test('each script names every command', async () => {
  for (const shell of ['bash', 'zsh', 'fish']) {
    const { stdout } = await cli(['completion', shell])
    for (const word of ['start', 'discover', 'workflow', 'doctor', 'completion']) expect(stdout).toContain(word)
  }
  expect(await cli(['completion'])).toMatchObject({ code: 2, stderr: expect.stringContaining('the shell is missing') })
})
