import * as z from 'zod'

export const Diagnosis = z
  .object({
    checks: z.array(
      z.object({
        id: z.string().meta({ description: 'id of the check: rpc, clock, facilitator, agents, bootstrap' }),
        title: z.string(),
        state: z.enum(['ok', 'warn', 'fail', 'skip']).meta({ description: '`skip`: the check could not run' }),
        text: z.string(),
        fix: z.string().optional().meta({ description: 'what to do' }),
      }),
    ),
  })
  .meta({ id: 'Diagnosis', description: 'Checks that the node makes of itself, with its own settings and keys.' })
export type Diagnosis = z.infer<typeof Diagnosis>
