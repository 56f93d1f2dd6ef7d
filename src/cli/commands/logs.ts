import { countText, LogLevelText } from '../../config/values.ts'
import { dataFile } from '../../store/data-dir.ts'
import { command, flag, option } from '../command.ts'
import { dataDirOf } from '../data-dir-of.ts'
import { exitCodes } from '../exit-code.ts'
import { isAtLeast, readableLine } from '../log.ts'
import { followLog, readLogTail } from '../log-file.ts'

const LINES = 200

export const logs = command({
  name: 'logs',
  local: true,
  summary: 'Show the log of the node on this data directory, also when it is stopped',
  details:
    'The node keeps its latest log lines, at most 8 MiB, in stoa.log in the data directory. It removes secrets before it writes a line.',
  examples: ['stoa logs', 'stoa logs -f', 'stoa logs --level warn --lines 50', 'stoa logs --json | jq .msg'],
  options: {
    lines: option('-n, --lines <n>', `how many lines to show (default: ${LINES})`, countText(100_000)),
    follow: flag('-f, --follow', 'keep printing new lines until Ctrl-C'),
    level: option('--level <level>', 'only lines of this level or higher: debug, info, warn or error', LogLevelText),
  },
  async run(context, { lines = LINES, follow, level = 'debug', ...flags }) {
    const { dataDir } = await dataDirOf(context, flags)
    const path = dataFile(dataDir, 'log')
    const { signal, stdout } = context.io
    const show = (line: string) => {
      if (!isAtLeast(line, level)) return
      stdout.write(context.json ? `${line}\n` : readableLine(line, context.style.stdout))
    }
    // Set the follow position before reading the tail. A line written in between is printed twice instead of never.
    const next = follow ? await followLog(path, signal) : undefined
    const tail = await readLogTail(path, lines)
    if (tail.length === 0) context.tell(`${path} has no log lines yet`)
    for (const line of tail) show(line)
    if (next !== undefined) for await (const line of next) show(line)
    return exitCodes.done
  },
})
