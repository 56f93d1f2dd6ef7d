import * as z from 'zod'
import { Door } from './door.ts'

/** One test of an address that is given to clients. */
const DoorTest = z.object({
  door: Door,
  from: z.enum(['here', 'peers']).meta({ description: 'who asked the address: this node, or peers of the market' }),
  agent_id: z.string().optional(),
  url: z.string(),
  state: z.enum(['ok', 'warn', 'fail', 'skip']).meta({ description: '`skip`: the address could not be asked' }),
  text: z.string(),
  fix: z.string().optional().meta({ description: 'what to do' }),
})
export type DoorTest = z.infer<typeof DoorTest>

/** What the addresses answered when they were last asked. */
export const DoorTests = z
  .object({ at: z.iso.datetime(), tests: z.array(DoorTest) })
  .meta({ id: 'DoorTests', description: 'What the addresses for strangers answered when they were last asked.' })
export type DoorTests = z.infer<typeof DoorTests>

const closed = {
  why: z.string().optional().meta({ description: 'why it is closed' }),
  fix: z.string().optional().meta({ description: 'how to open it' }),
}

/** Where others buy from this node, for its operator. */
export const Doors = z
  .object({
    doors: z.array(
      z.object({
        door: Door,
        open: z.boolean().meta({ description: 'false: nobody can buy by this way now' }),
        ...closed,
        url: z.string().optional().meta({ description: 'where strangers reach it' }),
        addresses: z.array(z.string()).optional().meta({ description: 'of libp2p' }),
        agents: z
          .array(
            z.object({
              agent_id: z.string(),
              agent_name: z.string(),
              url: z.string().meta({ description: 'what a client is given' }),
              stream_url: z.string().optional(),
            }),
          )
          .meta({ description: 'the agents for sale now, each with an address of its own' }),
        calls: z.int().meta({ description: 'paid runs' }),
        earned: z.string(),
        earned_atomic: z.string(),
      }),
    ),
    openai: z
      .object({
        open: z.boolean(),
        ...closed,
        url: z.string().optional().meta({ description: 'the base URL for clients' }),
        max_price: z.string().meta({ description: 'the most that `auto` pays for one call, in USDC' }),
        daily_budget: z.string().meta({ description: 'USDC a day for programs without a token of their own' }),
        spent: z.string().meta({ description: 'what these programs have spent' }),
        spent_today: z.string(),
      })
      .meta({ description: 'the door by which programs of the operator buy' }),
    api: z
      .object({ url: z.string().optional(), needs_token: z.boolean() })
      .meta({ description: 'the local API, with MCP and A2A for the operator' }),
    tests: DoorTests.optional().meta({ description: 'absent: not tested since the start' }),
  })
  .meta({ id: 'Doors', description: 'The ways by which others buy agents of this node, and programs buy by it.' })
export type Doors = z.infer<typeof Doors>
