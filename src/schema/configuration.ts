import * as z from 'zod'

const Setting = z.object({
  key: z.string().meta({ description: 'key of the setting in config.yaml' }),
  value: z
    .union([z.string(), z.number(), z.boolean(), z.array(z.string())])
    .nullable()
    .meta({ description: 'amounts are USDC as decimal text; null: not set' }),
  flag: z.string().optional().meta({ description: 'flag of `stoa start`; overrides the variable' }),
  variable: z.string().optional().meta({ description: 'environment variable; overrides config.yaml' }),
  operation: z
    .string()
    .optional()
    .meta({ description: 'operation of this API that changes the setting while the node runs' }),
})

/** The settings in force. Holds no secrets: URLs that may hold a key are cut to their origin. */
export const Configuration = z
  .object({
    config_file: z.string().meta({ description: 'file for settings without a flag or variable' }),
    settings: z.array(Setting),
  })
  .meta({ id: 'Configuration', description: 'The settings that the node uses now, without secrets.' })
export type Configuration = z.infer<typeof Configuration>
export type Setting = Configuration['settings'][number]
