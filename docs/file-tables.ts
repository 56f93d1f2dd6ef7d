/** Tables of the pages on agents.yaml, on workflows and on other nodes, out of the code that reads these files and words. */
import * as z from 'zod'
import { builtins } from '../src/agents/builtin/builtin-table.ts'
import { type LlmProvider, llmProviders } from '../src/agents/model-name.ts'
import { keyVariableOf, providerOfKeyVariable } from '../src/agents/providers.ts'
import { foreignCommands, foreignFlags } from '../src/cli/foreign-words.ts'
import { AgentDefinition } from '../src/schema/agent.ts'
import { McpTool, Operation, ToolServer } from '../src/schema/agent-service.ts'
import { CreateWorkflow } from '../src/schema/workflow.ts'
import { cell, fieldRows, type Schema } from './schema-table.ts'

const MIB = 1024 * 1024
const noLink = (name: string) => name
const schemaOf = (type: z.ZodType) =>
  z.toJSONSchema(type, { io: 'input', unrepresentable: 'any', reused: 'inline' }) as Schema
const table = (schema: Schema) =>
  ['| Field | Type | Meaning |', '|---|---|---|', ...fieldRows(schema, noLink)].join('\n')

/** What a provider is called by people, and what a node must know to use it. */
const providerNames: Readonly<Record<LlmProvider, string>> = {
  openai: 'OpenAI',
  anthropic: 'Anthropic',
  google: 'Google',
  openrouter: 'OpenRouter',
  ollama: 'Ollama at `http://127.0.0.1:11434`',
  'openai-compatible': 'the server at `OPENAI_BASE_URL`',
}

export function agentsTables(): Record<string, string> {
  return {
    fields: table(schemaOf(AgentDefinition)),
    servers: table(schemaOf(ToolServer)),
    tool: table(schemaOf(McpTool)),
    operation: table(schemaOf(Operation)),
    builtins: [
      '| `model` | What it does | Largest task |',
      '|---|---|---|',
      ...Object.entries(builtins).map(
        ([name, { description, taskBytesMax }]) =>
          `| \`builtin/${name}\` | ${cell(description)} | ${taskBytesMax / MIB} MiB |`,
      ),
    ].join('\n'),
    providers: ['| `model` | Provider | Key | Default model |', '|---|---|---|---|', ...providerRows()].join('\n'),
  }
}

function providerRows(): string[] {
  return llmProviders.map((provider) => {
    const variable = keyVariableOf(provider)
    const first = providerOfKeyVariable(variable)
    const model = first?.provider === provider ? `\`${first.provider}/${first.modelId}\`` : 'none'
    // The other two ask a server that may want no key.
    const key = first?.provider === provider ? `\`${variable}\`` : `\`${variable}\`, if the server requires a key`
    const shown = provider === 'ollama' ? 'none' : key
    return `| \`${provider}/<model>\` | ${providerNames[provider]} | ${shown} | ${model} |`
  })
}

export function workflowTables(): Record<string, string> {
  const { $defs } = schemaOf(CreateWorkflow) as { $defs: Record<'CreateWorkflow' | 'WorkflowStepDefinition', Schema> }
  const { properties } = $defs.CreateWorkflow
  // A step has a table of its own.
  const steps = { ...(properties as Record<'steps', Schema>).steps, items: { type: 'step' } }
  return {
    workflow: table({ ...$defs.CreateWorkflow, properties: { ...(properties as Schema), steps } }),
    step: table($defs.WorkflowStepDefinition),
  }
}

export function foreignTable(): Record<string, string> {
  const rows = Object.entries({ ...foreignCommands, ...foreignFlags }).map(
    ([theirs, ours]) => `| \`${theirs}\` | ${cell(ours)} |`,
  )
  return { words: ['| Original node | Stoa |', '|---|---|', ...rows].join('\n') }
}
