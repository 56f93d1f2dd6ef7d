import * as z from 'zod'
import { Door } from './door.ts'

/** Where others buy from this node, for its operator. */
export const Doors = z
  .object({
    doors: z.array(
      z.object({
        door: Door,
        open: z.boolean().meta({ description: 'false: nobody can buy by this way now' }),
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
  })
  .meta({ id: 'Doors', description: 'The ways by which others buy agents of this node.' })
export type Doors = z.infer<typeof Doors>
