import { countText, LogLevelText } from '../../config/values.ts'
import { dataFile } from '../../store/data-dir.ts'
import { command, commonOptions, flag, option } from '../command.ts'
import { exitCodes } from '../exit-code.ts'
import { isAtLeast, readableLine } from '../log.ts'
import { followLog, readLogTail } from '../log-file.ts'

const LINES = 200

export const logs = command({
  name: 'logs',
  local: true,
  summary: 'Show the log of the node on this data directory, running or not',
  details:
    'The node keeps its last lines, at most 8 MiB, in stoa.log of the data directory; secrets are taken out before they are written.',
  examples: ['stoa logs', 'stoa logs -f', 'stoa logs --level warn --lines 50', 'stoa logs --json | jq .msg'],
  options: {
    lines: option('-n, --lines <n>', `how many lines (default: ${LINES})`, countText(100_000)),
    follow: flag('-f, --follow', 'go on with what is written next, until Ctrl-C'),
    level: option('--level <level>', 'only lines of this level and above: debug, info, warn or error', LogLevelText),
    ...commonOptions,
  },
  async run(context, { lines = LINES, follow, level = 'debug', ...flags }) {
    const { config } = await context.loadConfig(flags)
    const path = dataFile(config.dataDir, 'log')
    const { signal, stdout } = context.io
    const show = (line: string) => {
      if (!isAtLeast(line, level)) return
      stdout.write(context.json ? `${line}\n` : readableLine(line, context.style.stdout))
    }
    // Set the follow position before reading the tail. A line written in between is printed twice instead of never.
    const next = follow ? await followLog(path, signal) : undefined
    const tail = await readLogTail(path, lines)
    if (tail.length === 0) context.tell(`nothing has been logged in ${path} yet`)
    for (const line of tail) show(line)
    if (next !== undefined) for await (const line of next) show(line)
    return exitCodes.done
  },
})
