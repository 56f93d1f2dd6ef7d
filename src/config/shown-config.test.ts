import { expect, test } from 'vitest'
import { createConfig } from './config.ts'
import { configKeys } from './config-yaml.ts'
import { shownConfig } from './shown-config.ts'

const SECRET = 'sk-secret-0123456789'
const shown = (settings: Parameters<typeof createConfig>[0], key: string) =>
  shownConfig(createConfig(settings)).settings.find((setting) => setting.key === key)

test('every key of config.yaml is shown, with the place where it is set', () => {
  const { settings, config_file } = shownConfig(createConfig({ dataDir: '/data' }))
  expect(settings.map(({ key }) => key)).toEqual(configKeys)
  expect(config_file).toBe('/data/config.yaml')
  expect(shown({ dataDir: '/data', maxPriceAtomic: 250_000n }, 'buyer.max_price')).toEqual({
    ...{ key: 'buyer.max_price', value: '0.25' },
    ...{ flag: '--max-price', variable: 'NODE_MAX_PRICE', operation: 'PUT /budget' },
  })
})

test('T21 no secret is shown, in no part of a URL', () => {
  for (const url of [
    `https://rpc.example/v2/${SECRET}`,
    `https://rpc.example/?key=${SECRET}`,
    `https://${SECRET}@rpc.example/`,
    `https://rpc.example/#${SECRET}`,
  ]) {
    const webhooks = [{ url: `https://hooks.example/${SECRET}`, secret_env: 'HOOK', events: [] }]
    const settings = { dataDir: '/data', rpcUrl: url, facilitatorUrl: url, webhooks }
    expect(JSON.stringify(shownConfig(createConfig(settings)))).not.toContain(SECRET)
    expect(shown(settings, 'rpc_url')?.value).toBe('https://rpc.example')
    expect(shown(settings, 'facilitator_url')?.value).toBe('https://rpc.example')
  }
})
