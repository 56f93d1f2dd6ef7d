import * as z from 'zod'
import { type Command, command, commonOptions, type Option } from './command.ts'
import { exitCodes, UsageError } from './exit-code.ts'

const shells = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof shells)[number]

/** What a shell needs to know of one word path: the words that may follow it, and the options it takes. */
export type Place = { path: readonly string[]; words: { word: string; summary: string }[]; options: readonly Option[] }

/** `stoa completion`: made from the command table itself, so that it never falls behind. */
export function completionOf(table: () => readonly Command[]): Command {
  return command({
    name: 'completion',
    summary: 'Write the completion script of a shell: bash, zsh or fish',
    details:
      'bash: stoa completion bash > ~/.local/share/bash-completion/completions/stoa\nzsh: stoa completion zsh > ~/.zsh/completions/_stoa\nfish: stoa completion fish > ~/.config/fish/completions/stoa.fish',
    examples: [
      'stoa completion bash > ~/.local/share/bash-completion/completions/stoa',
      'stoa completion fish | source',
    ],
    options: { ...commonOptions },
    argument: { name: 'shell', description: 'bash, zsh or fish', choices: shells },
    async run(context, _values, shell) {
      if (shell === undefined) throw new UsageError('which shell? stoa completion bash, zsh or fish')
      const places = placesOf(table())
      const script = { bash: bashScript, zsh: zshScript, fish: fishScript }[shell as Shell](places)
      if (context.json) context.printJson({ shell, script })
      else context.io.stdout.write(script)
      return exitCodes.done
    },
  })
}

/** Every group and every command of the table. */
export function placesOf(table: readonly Command[]): Place[] {
  const places = new Map<string, Place>()
  const placeAt = (path: readonly string[]) => {
    const key = path.join(' ')
    if (!places.has(key)) places.set(key, { path, words: [], options: [] })
    return places.get(key)!
  }
  for (const row of table) {
    const path = row.name.split(' ')
    for (const [depth, word] of path.entries()) {
      const parent = placeAt(path.slice(0, depth))
      const summary = depth === path.length - 1 ? row.summary : ''
      if (!parent.words.some((known) => known.word === word)) parent.words.push({ word, summary })
    }
    const place = placeAt(path)
    place.options = Object.values(row.options)
    for (const word of row.argument?.choices ?? []) place.words.push({ word, summary: row.argument!.description })
  }
  return [...places.values()]
}

/** What may stand after an option. */
export function valuesOf({ flags, schema }: Option): readonly string[] | 'files' | 'any' | 'none' {
  if (schema === undefined) return 'none'
  const inner = schema instanceof z.ZodArray ? schema.element : schema
  if (inner instanceof z.ZodEnum) return inner.options.map(String)
  return flags.includes('<path>') || flags.includes('<file>') ? 'files' : 'any'
}

const longOf = ({ flags }: Option) => /--[a-z-]+/.exec(flags)![0]
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`
const inOne = (text: string) => text.replace(/\s+/g, ' ')

/** Options by what may stand after them, each once. */
function optionCases(places: readonly Place[]) {
  const byFlag = new Map<string, ReturnType<typeof valuesOf>>()
  for (const option of places.flatMap(({ options }) => options)) {
    const [flag, values] = [longOf(option), valuesOf(option)]
    const known = byFlag.get(flag)
    // Two commands may each have their own list behind one flag.
    byFlag.set(flag, Array.isArray(known) && Array.isArray(values) ? [...new Set([...known, ...values])] : values)
  }
  const flagsWith = (kind: 'files' | 'any') => [...byFlag].filter(([, values]) => values === kind).map(([flag]) => flag)
  const listed = [...byFlag].filter((entry): entry is [string, readonly string[]] => Array.isArray(entry[1]))
  return { files: flagsWith('files'), any: flagsWith('any'), listed }
}

function bashScript(places: readonly Place[]): string {
  const { files, any, listed } = optionCases(places)
  const steps = places.filter(({ path }) => path.length > 0).map(({ path }) => quoted(`/${path.join('/')}`))
  const cases = places.map(({ path, words, options }) => {
    const all = [...words.map(({ word }) => word), ...options.map(longOf), '--help']
    return `    ${quoted(path.map((word) => `/${word}`).join(''))}) words=${quoted(all.join(' '))} ;;`
  })
  return `# bash completion for stoa, made by: stoa completion bash
_stoa() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} at='' words='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at/\${COMP_WORDS[i]}" in
      ${steps.join(' | ')}) at="$at/\${COMP_WORDS[i]}" ;;
    esac
  done
  COMPREPLY=()
  case "$previous" in
${listed.map(([flag, values]) => `    ${flag}) COMPREPLY=($(compgen -W ${quoted(values.join(' '))} -- "$current")); return ;;`).join('\n')}
    ${files.join(' | ')}) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
    ${any.join(' | ')}) return ;;
  esac
  case "$at" in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F _stoa stoa
`
}

function zshScript(places: readonly Place[]): string {
  const { files, any, listed } = optionCases(places)
  const steps = places.filter(({ path }) => path.length > 0).map(({ path }) => `/${path.join('/')}`)
  const described = (word: string, text: string) => quoted(`${word}:${inOne(text)}`)
  const cases = places.map(({ path, words, options }) => {
    const all = [
      ...words.map(({ word, summary }) => described(word, summary)),
      ...options.map((option) => described(longOf(option), option.description)),
    ]
    return `    (${quoted(path.map((word) => `/${word}`).join(''))}) found=(${all.join(' ')}) ;;`
  })
  return `#compdef stoa
# zsh completion for stoa, made by: stoa completion zsh
_stoa() {
  local at='' word
  local -a found
  integer i
  for (( i = 2; i < CURRENT; i++ )); do
    word="$at/\${words[i]}"
    case "$word" in
      (${steps.join('|')}) at="$word" ;;
    esac
  done
  case "\${words[CURRENT-1]}" in
${listed.map(([flag, values]) => `    (${flag}) compadd -- ${values.join(' ')}; return ;;`).join('\n')}
    (${files.join('|')}) _files; return ;;
    (${any.join('|')}) return ;;
  esac
  case "$at" in
${cases.join('\n')}
  esac
  _describe 'stoa' found
}
if [[ "\${funcstack[1]}" == _stoa ]]; then _stoa "$@"; else compdef _stoa stoa; fi
`
}

function fishScript(places: readonly Place[]): string {
  const lines = places.flatMap(({ path, words, options }) => {
    const when = `-n ${quoted(['__stoa_at', ...path].join(' '))}`
    return [
      ...words.map(({ word, summary }) => `complete -c stoa ${when} -f -a ${word} -d ${quoted(inOne(summary))}`),
      ...options.map((option) => {
        const values = valuesOf(option)
        const after =
          values === 'none'
            ? ''
            : values === 'files'
              ? ' -r -F'
              : values === 'any'
                ? ' -x'
                : ` -x -a ${quoted(values.join(' '))}`
        return `complete -c stoa ${when} -f -l ${longOf(option).slice(2)}${after} -d ${quoted(inOne(option.description))}`
      }),
    ]
  })
  return `# fish completion for stoa, made by: stoa completion fish
function __stoa_at
    set -l words (string match -v -- '-*' (commandline -opc)[2..-1])
    test "$words" = "$argv"
end
${lines.join('\n')}
`
}
