import * as z from 'zod'
import { AgentImage, MaxPrice, privateFields, Streaming } from './agent.ts'
import { PriceText } from './amount.ts'
import { RegisterAgent, Task } from './api.ts'

/** An agent of this node as its operator sees it, on the market or not. */
export const OwnAgent = z
  .object({
    id: z.string(),
    name: z.string(),
    description: z.string(),
    price: PriceText,
    price_atomic: z.string(),
    max_price: PriceText.optional().meta({
      description: 'the most that one run pays the agent elsewhere that does the work, in USDC',
    }),
    model: z.string().optional().meta({ description: 'as it was asked for; absent: the best that is available' }),
    runs: z.string().meta({ description: 'what it runs on, as the listing says' }),
    ...privateFields,
    tags: z.array(z.string()),
    image: AgentImage.optional(),
    timeout_seconds: z.int(),
    streaming: Streaming.optional(),
    paused: z.boolean().meta({ description: 'kept, and not on the market' }),
    listed: z.boolean(),
    runnable: z.boolean().meta({ description: 'false: it cannot run, is not on the market, and `notice` says why' }),
    notice: z.string().optional().meta({ description: 'what is wrong with it, and what to do' }),
    managed_in_file: z.boolean().meta({
      description: 'names a program, an address or a key: those fields are changed in agents.yaml only',
    }),
  })
  .meta({ id: 'OwnAgent', description: 'An agent of this node, with what only its operator needs to know.' })
export type OwnAgent = z.infer<typeof OwnAgent>
export const OwnAgents = z.array(OwnAgent)

const { description, price, model, tags, image, timeout_seconds } = RegisterAgent.shape
const { instructions, temperature, max_output_tokens, reasoning } = privateFields

/** The fields of an agent that can be changed over HTTP. The name is the identity: another name is another agent. */
export const UpdateAgent = z
  .strictObject({
    description: description.optional(),
    price: price.optional(),
    max_price: MaxPrice.nullable().optional().meta({
      description: 'the most that one run pays the agent behind `a2a`, in USDC; null: nothing is paid',
    }),
    model: model.unwrap().nullable().optional().meta({ description: 'null: the best that is available' }),
    instructions: instructions.unwrap().nullable().optional().meta({ description: 'null: the description' }),
    temperature: temperature.unwrap().nullable().optional().meta({ description: 'null: the model’s own' }),
    max_output_tokens: max_output_tokens.unwrap().nullable().optional().meta({ description: 'null: the model’s own' }),
    reasoning: reasoning.unwrap().nullable().optional().meta({ description: 'null: the model’s own' }),
    tags,
    image: image.unwrap().nullable().optional().meta({ description: 'null: none' }),
    timeout_seconds: timeout_seconds.unwrap().nullable().optional().meta({ description: 'null: the usual limit' }),
    streaming: Streaming.nullable().optional().meta({ description: 'null: `owed_once_shown`' }),
  })
  .meta({ id: 'UpdateAgent', description: 'Fields that are left out stay as they are.' })
export type UpdateAgent = z.infer<typeof UpdateAgent>

export const TestAgent = z.strictObject({ task: Task }).meta({ id: 'TestAgent' })
/** The body of POST /agents/try. */
export const TryAgent = z
  .strictObject({ agent: RegisterAgent, task: Task })
  .meta({ id: 'TryAgent', description: 'An agent as it would be registered, and a task for it.' })
export const TestResult = z.object({ output: z.string(), duration_ms: z.int() }).meta({
  id: 'TestResult',
  description: 'What the agent answered. Nothing is kept but what an agent with `max_price` bought for it.',
})
export type TestResult = z.infer<typeof TestResult>

/** The language models on the servers that this node can ask. */
export const AvailableModels = z
  .object({
    servers: z.array(
      z.object({
        provider: z.string(),
        url: z.string(),
        models: z.array(z.string()).meta({ description: 'as `model` of an agent names them' }),
        problem: z.string().optional().meta({ description: 'why it has not said what it has' }),
      }),
    ),
    default: z.string().optional().meta({ description: 'what an agent without a `model` runs on' }),
    builtin: z.array(z.object({ model: z.string(), description: z.string() })).meta({
      description: 'agents that need no model',
    }),
  })
  .meta({ id: 'AvailableModels', description: 'What an agent of this node can run on.' })
export type AvailableModels = z.infer<typeof AvailableModels>
