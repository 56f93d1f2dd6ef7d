import * as z from 'zod'

/** Catalogs of x402 resources that are searched beside the market. */
const SOURCES_MAX = 8
const variable = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/

export const SourceName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'must have 1 to 32 characters: a-z, 0-9 and -')
  .meta({ description: 'name of the catalog in config.yaml' })

/** An entry of `sources` in config.yaml, where every value is text. The operator set it, so any https address is allowed. */
export const SourceSetting = z.strictObject({
  url: z
    .string()
    .max(2048)
    .refine(
      isCatalogUrl,
      'must be an https URL without user name, password and query, such as https://example.org/x402; http only on this machine',
    ),
  name: SourceName.optional(),
  token_env: z.string().regex(variable, 'is not the name of an environment variable').optional(),
  headers_env: z
    .array(z.string().regex(/^[A-Za-z][A-Za-z0-9-]{0,63}=[A-Za-z_][A-Za-z0-9_]{0,127}$/, 'is not Name=VARIABLE'))
    .max(8)
    .optional(),
  allow_private: z.enum(['true', 'false'], 'must be true or false').optional(),
})
export type SourceSetting = z.infer<typeof SourceSetting>

/** `sources` in config.yaml. */
export const SourceSettings = z
  .array(SourceSetting)
  .max(SOURCES_MAX)
  .refine(
    (sources) => new Set(sources.map(sourceName)).size === sources.length,
    'two of them have the same name: give each a name of its own',
  )

/** The name of a source without one comes from its host. */
export function sourceName({ name, url }: Pick<SourceSetting, 'name' | 'url'>): string {
  const host = (URL.parse(url)?.host ?? url).replace(/[^a-z0-9]+/g, '-').replace(/^-+/, '')
  return name ?? host.slice(0, 32).replace(/-+$/, '')
}

function isCatalogUrl(text: string): boolean {
  const url = URL.parse(text)
  if (url === null || url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') return false
  const isHere = /^(?:localhost|127\.[0-9.]+|\[::1\])$/.test(url.hostname)
  return url.protocol === 'https:' || (url.protocol === 'http:' && isHere)
}
