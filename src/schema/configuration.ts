import * as z from 'zod'

const Setting = z.object({
  key: z.string().meta({ description: 'as config.yaml has it' }),
  value: z
    .union([z.string(), z.number(), z.boolean(), z.array(z.string())])
    .nullable()
    .meta({
      description: 'amounts are USDC as decimal text; null: not set',
    }),
  flag: z.string().optional().meta({ description: 'of `stoa start`, which goes before the variable' }),
  variable: z.string().optional().meta({ description: 'of the environment, which goes before config.yaml' }),
  operation: z.string().optional().meta({ description: 'of this API, that changes it while the node runs' }),
})

/** The settings in force. Holds no secrets: URLs that may hold a key are cut to their origin. */
export const Configuration = z
  .object({
    config_file: z.string().meta({ description: 'the file that sets what flag and variable leave open' }),
    settings: z.array(Setting),
  })
  .meta({ id: 'Configuration', description: 'The settings of this node as they are in force, without its secrets.' })
export type Configuration = z.infer<typeof Configuration>
export type Setting = Configuration['settings'][number]
