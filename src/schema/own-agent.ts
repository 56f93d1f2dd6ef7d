import * as z from 'zod'
import { AgentImage, MaxPrice, privateFields, Streaming } from './agent.ts'
import { PriceText } from './amount.ts'
import { RegisterAgent, Task } from './api.ts'
import { Listing } from './listing.ts'
import { Pricing } from './pricing.ts'

const DiffersAt = z.array(z.string()).optional().meta({
  description:
    'where processes of this seller run that have other settings for the agent, or do not have it: a change is made at one process, and the others keep theirs until it is made there too',
})

export const OwnAgent = z
  .object({
    id: z.string(),
    name: z.string(),
    description: z.string(),
    price: PriceText.meta({ description: 'the most that a call costs, in USDC' }),
    price_atomic: z.string(),
    pricing: Pricing.optional().meta({ description: 'prices by use, for calls on payment channels' }),
    on_channels_only: z
      .literal(true)
      .optional()
      .meta({ description: 'the agent has `pricing` and no price of its own' }),
    max_price: PriceText.optional().meta({ description: 'the most that one run may pay the remote agent, in USDC' }),
    model: z.string().optional().meta({ description: 'model from the settings; absent: the best available model' }),
    runs: z.string().meta({ description: 'model that the agent runs on, as shown in its listing' }),
    ...privateFields,
    tags: z.array(z.string()),
    image: AgentImage.optional(),
    timeout_seconds: z.int(),
    streaming: Streaming.optional(),
    paused: z.boolean().meta({ description: 'true: stored, but not on the market' }),
    listed: z.boolean(),
    runnable: z
      .boolean()
      .meta({ description: 'false: the agent cannot run and is not on the market; `notice` says why' }),
    sold_elsewhere: z.literal(true).optional().meta({
      description: 'the agent cannot run at this process, and another process of this seller sells it',
    }),
    differs_at: DiffersAt,
    notice: z.string().optional().meta({ description: 'what is wrong with the agent, and what to do' }),
    managed_in_file: z.boolean().meta({
      description:
        'true: the agent names a program, an address or a key; these fields can be changed only in agents.yaml',
    }),
  })
  .meta({ id: 'OwnAgent', description: 'An agent of this node, with fields that only the operator sees.' })
export type OwnAgent = z.infer<typeof OwnAgent>
/** The answer to a registration. */
export const RegisteredAgent = z
  .object({ ...Listing.shape, differs_at: DiffersAt })
  .meta({ id: 'RegisteredAgent', description: 'The listing of the agent.' })
export type RegisteredAgent = z.infer<typeof RegisteredAgent>
export const OwnAgents = z.array(OwnAgent)

/** The answer to a reload of agents.yaml. */
export const ReloadedAgents = z
  .object({
    added: OwnAgents.meta({ description: 'agents that are new in the file' }),
    changed: OwnAgents.meta({ description: 'agents whose entry changed, and those that can run now and could not' }),
    removed: OwnAgents.meta({ description: 'agents that left the file, as they were' }),
    unchanged: z.int().meta({ description: 'agents of the file that stay as they are' }),
    kept: z.array(z.string()).meta({
      description:
        'names of the file that this node sells otherwise, such as an agent of the flags of `stoa start`: these agents stay as they are',
    }),
  })
  .meta({ id: 'ReloadedAgents', description: 'What a reload of agents.yaml changed at this process.' })
export type ReloadedAgents = z.infer<typeof ReloadedAgents>

const { description, price, model, tags, image, timeout_seconds } = RegisterAgent.shape
const { instructions, temperature, max_output_tokens, reasoning } = privateFields

/** The fields of an agent that can be changed over HTTP. The name is the identity: another name is another agent. */
export const UpdateAgent = z
  .strictObject({
    description: description.optional(),
    price: price.unwrap().optional(),
    pricing: Pricing.nullable().optional().meta({ description: 'null: calls cost the price' }),
    max_price: MaxPrice.nullable().optional().meta({
      description: 'the most that one run may pay the remote agent of `a2a`, in USDC; null: pays nothing',
    }),
    model: model.unwrap().nullable().optional().meta({ description: 'null: the best available model' }),
    instructions: instructions.unwrap().nullable().optional().meta({ description: 'null: the description' }),
    temperature: temperature.unwrap().nullable().optional().meta({ description: 'null: the default of the model' }),
    max_output_tokens: max_output_tokens
      .unwrap()
      .nullable()
      .optional()
      .meta({ description: 'null: the default of the model' }),
    reasoning: reasoning.unwrap().nullable().optional().meta({ description: 'null: the default of the model' }),
    tags,
    image: image.unwrap().nullable().optional().meta({ description: 'null: none' }),
    timeout_seconds: timeout_seconds.unwrap().nullable().optional().meta({ description: 'null: the default limit' }),
    streaming: Streaming.nullable().optional().meta({ description: 'null: `owed_once_shown`' }),
  })
  .meta({ id: 'UpdateAgent', description: 'Omitted fields stay as they are.' })
export type UpdateAgent = z.infer<typeof UpdateAgent>

export const TestAgent = z.strictObject({ task: Task }).meta({ id: 'TestAgent' })
/** The body of POST /agents/try. */
export const TryAgent = z
  .strictObject({ agent: RegisterAgent, task: Task })
  .meta({ id: 'TryAgent', description: 'An agent, described as for its registration, and a task for it.' })
export const TestResult = z.object({ output: z.string(), duration_ms: z.int() }).meta({
  id: 'TestResult',
  description: 'The answer of the agent. The node stores nothing except purchases that an agent with `max_price` made.',
})
export type TestResult = z.infer<typeof TestResult>

export const AvailableModels = z
  .object({
    servers: z.array(
      z.object({
        provider: z.string(),
        url: z.string(),
        models: z.array(z.string()).meta({ description: 'names to use as `model` of an agent' }),
        problem: z.string().optional().meta({ description: 'why the list of its models is missing' }),
      }),
    ),
    default: z.string().optional().meta({ description: 'model of an agent without `model`' }),
    builtin: z.array(z.object({ model: z.string(), description: z.string() })).meta({
      description: 'built-in agents, which need no model',
    }),
  })
  .meta({ id: 'AvailableModels', description: 'The models that an agent of this node can run on.' })
export type AvailableModels = z.infer<typeof AvailableModels>
