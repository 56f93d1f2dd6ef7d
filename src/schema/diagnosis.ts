import * as z from 'zod'

/** The result of a node's checks of itself. */
export const Diagnosis = z
  .object({
    checks: z.array(
      z.object({
        id: z.string().meta({ description: 'of the check: rpc, clock, facilitator, agents, bootstrap' }),
        title: z.string(),
        state: z.enum(['ok', 'warn', 'fail', 'skip']).meta({ description: 'skip: it could not be told' }),
        text: z.string(),
        fix: z.string().optional().meta({ description: 'what to do' }),
      }),
    ),
  })
  .meta({ id: 'Diagnosis', description: 'What this node finds of itself, with its own settings and keys.' })
export type Diagnosis = z.infer<typeof Diagnosis>
