import * as z from 'zod'
import { countText, UrlText, UsdcText } from '../../config/values.ts'
import { AGENT_TIMEOUT_SECONDS } from '../../schema/agent.ts'
import { RUN_SECONDS_MAX } from '../../schema/limits.ts'
import { commonOptions, flag, option, repeated, type ValuesOf } from '../command.ts'
import { maxPriceOption } from '../commands/agent-config.ts'
import { oneOf } from '../text/market-text.ts'
import { serviceKinds } from './service.ts'

const Texts = z.array(z.string())

export const sellOptions = {
  as: option(
    '--as <kind>',
    `what the target is: ${serviceKinds.join(', ')} (default: what answers first)`,
    oneOf(serviceKinds),
  ),
  tool: repeated('--tool <name>', 'a tool of an MCP server to sell; may be repeated', Texts),
  operation: repeated(
    '--operation <id>',
    'an operation of an OpenAPI document to sell: its id, or "GET /path"; may be repeated',
    Texts,
  ),
  model: repeated('--model <name>', 'a model of an OpenAI-compatible server to sell; may be repeated', Texts),
  all: flag('--all', 'sell every tool, operation or model that was found'),
  name: option('-n, --name <name>', 'name of the agent; of several agents, the beginning of each name', z.string()),
  description: option(
    '-d, --description <text>',
    'what the agent does; public (default: what the service says)',
    z.string(),
  ),
  price: option('-r, --price <usdc>', 'price of one task in USDC, at most 6 decimals; 0 means free', UsdcText),
  maxPrice: maxPriceOption,
  tag: repeated('--tag <tag>', 'a word that searches match; may be repeated (default: what the service says)', Texts),
  server: option(
    '--server <url>',
    'where the operations of an OpenAPI document are (default: its first server)',
    UrlText,
  ),
  apiKeyEnv: option(
    '--api-key-env <NAME>',
    'NAME of the variable that holds the key of the service, never the key',
    z.string(),
  ),
  runTimeout: option(
    '--run-timeout <seconds>',
    `the longest time for one task (default: ${AGENT_TIMEOUT_SECONDS})`,
    countText(RUN_SECONDS_MAX),
  ),
  sample: repeated(
    '--sample <task>',
    'a task for the test run; of several agents, as <tool>=<task>; may be repeated (default: an example of the service)',
    Texts,
  ),
  testChanges: flag('--test-changes', 'test also what may change something, such as a POST'),
  test: flag('--no-test', 'list the agents without a test run'),
  dryRun: flag('--dry-run', 'print the entries for agents.yaml and write nothing'),
  yes: flag('-y, --yes', 'ask no questions'),
  ...commonOptions,
} as const
export type SellFlags = ValuesOf<typeof sellOptions>
