import * as z from 'zod'
import { type Command, command, type Option } from './command.ts'
import { groupSummaries } from './group-summaries.ts'

const shells = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof shells)[number]
const NO_SHELL = 'the shell is missing: stoa completion bash, zsh or fish'

/** What a shell completes after some words: the next words and the options. */
export type Place = {
  path: readonly string[]
  words: { word: string; summary: string }[]
  options: readonly Option[]
  /** The argument may be a file. */
  files: boolean
}

/** `stoa completion`: generates the scripts from the command table, so that they are never out of date. */
export function completionOf(table: () => readonly Command[]): Command {
  return command({
    name: 'completion',
    local: true,
    summary: 'Print the completion script for a shell: bash, zsh or fish',
    details:
      'Add one line to the startup file of your shell:\n  ~/.bashrc                   source <(stoa completion bash)\n  ~/.zshrc, after compinit    source <(stoa completion zsh)\n  ~/.config/fish/config.fish  stoa completion fish | source',
    examples: ['stoa completion fish | source', 'stoa completion bash > /etc/bash_completion.d/stoa'],
    argument: { name: 'shell', description: 'bash, zsh or fish', choices: shells, missing: NO_SHELL },
    async run(context, _values, shell) {
      const places = placesOf(table())
      const script = { bash: bashScript, zsh: zshScript, fish: fishScript }[shell as Shell](places)
      if (context.json) context.printJson({ shell, script })
      else context.io.stdout.write(script)
    },
  })
}

const helpOnly: readonly Option[] = [{ flags: '--help', description: 'show help' }]

export function placesOf(table: readonly Command[]): Place[] {
  const places = new Map<string, Place>()
  const placeAt = (path: readonly string[]) => {
    const key = path.join(' ')
    if (!places.has(key)) places.set(key, { path, words: [], options: helpOnly, files: false })
    return places.get(key)!
  }
  for (const row of table) {
    const path = row.name.split(' ')
    for (const [depth, word] of path.entries()) {
      const parent = placeAt(path.slice(0, depth))
      const summary =
        depth === path.length - 1 ? row.summary : (groupSummaries[path.slice(0, depth + 1).join(' ')] ?? '')
      if (!parent.words.some((known) => known.word === word)) parent.words.push({ word, summary })
    }
    const place = placeAt(path)
    place.options = [...Object.values(row.options), ...helpOnly]
    place.files = row.argument?.name.includes('file') ?? false
    for (const word of row.argument?.choices ?? []) place.words.push({ word, summary: row.argument!.description })
  }
  return [...places.values()]
}

export function valuesOf({ flags, schema }: Option): readonly string[] | 'files' | 'any' | 'none' {
  if (schema === undefined) return 'none'
  const inner = schema instanceof z.ZodArray ? schema.element : schema
  if (inner instanceof z.ZodEnum) return inner.options.map(String)
  return flags.includes('<path>') || flags.includes('<file>') ? 'files' : 'any'
}

/** The scripts write a word path as /agent/execute. */
const atOf = (path: readonly string[]) => path.map((word) => `/${word}`).join('')
const placesBelow = (places: readonly Place[]) => places.map(({ path }) => atOf(path)).filter((at) => at !== '')
const longOf = ({ flags }: Option) => /--[a-z0-9-]+/.exec(flags)![0]
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`
const inOne = (text: string) => text.replace(/\s+/g, ' ')

function optionCases(places: readonly Place[]) {
  const byFlag = new Map<string, ReturnType<typeof valuesOf>>()
  for (const option of places.flatMap(({ options }) => options)) {
    const [flag, values] = [longOf(option), valuesOf(option)]
    const known = byFlag.get(flag)
    // Two commands may use one flag with different lists of values.
    byFlag.set(flag, Array.isArray(known) && Array.isArray(values) ? [...new Set([...known, ...values])] : values)
  }
  const flagsWith = (kind: 'files' | 'any') => [...byFlag].filter(([, values]) => values === kind).map(([flag]) => flag)
  const listed = [...byFlag].filter((entry): entry is [string, readonly string[]] => Array.isArray(entry[1]))
  return { files: flagsWith('files'), any: flagsWith('any'), listed }
}

function bashScript(places: readonly Place[]): string {
  const { files, any, listed } = optionCases(places)
  const steps = placesBelow(places).map(quoted)
  const cases = places.map(({ path, words, options, files }) => {
    const all = [...words.map(({ word }) => word), ...options.map(longOf)]
    const orFile = files ? '; compopt -o default' : ''
    return `    ${quoted(atOf(path))}) words=${quoted(all.join(' '))}${orFile} ;;`
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
  const steps = placesBelow(places)
  const described = (word: string, text: string) => quoted(`${word}:${inOne(text)}`)
  const cases = places.map(({ path, words, options, files }) => {
    const all = [
      ...words.map(({ word, summary }) => described(word, summary)),
      ...options.map((option) => described(longOf(option), option.description)),
    ]
    return `    (${quoted(atOf(path))}) found=(${all.join(' ')})${files ? '; _files' : ''} ;;`
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
  const lines = places.flatMap(({ path, words, options, files }) => {
    const when = `-n ${quoted(`__stoa_at ${quoted(atOf(path))}`)}`
    return [
      ...(files ? [] : [`complete -c stoa ${when} -f`]),
      ...words.map(({ word, summary }) => `complete -c stoa ${when} -a ${word} -d ${quoted(inOne(summary))}`),
      ...options.map((option) => {
        const about = `-l ${longOf(option).slice(2)}${fishValues(valuesOf(option))} -d ${quoted(inOne(option.description))}`
        return `complete -c stoa ${when} ${about}`
      }),
    ]
  })
  return `# fish completion for stoa, made by: stoa completion fish
function __stoa_at
    set -l at
    for word in (commandline -opc)[2..-1]
        contains -- "$at/$word" ${placesBelow(places).join(' ')}; and set at "$at/$word"
    end
    test "$at" = "$argv[1]"
end
${lines.join('\n')}
`
}

/** `-r -F`: a file must follow. `-x`: a value must follow that is not a file. */
function fishValues(values: ReturnType<typeof valuesOf>): string {
  if (values === 'none') return ''
  if (values === 'files') return ' -r -F'
  return values === 'any' ? ' -x' : ` -x -a ${quoted(values.join(' '))}`
}
