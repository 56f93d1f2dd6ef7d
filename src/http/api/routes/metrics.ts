import * as z from 'zod'
import type { MetricSources } from '../metric-family.ts'
import { type Operation, operation } from '../operation.ts'

export function metricsRoutes(metrics: MetricSources): Operation[] {
  let text: (() => Promise<string>) | undefined
  return [
    operation({
      id: 'getMetrics',
      method: 'GET',
      path: '/metrics',
      summary: 'Metrics in the format of Prometheus',
      description: 'Executions, payments, settlement, the outbox, peers, listings, budget, and the process itself.',
      tags: ['node'],
      access: 'private',
      scope: 'read',
      media: 'text/plain',
      response: z.string(),
      async handler() {
        // The library loads with the first scrape.
        text ??= (await import('../metrics.ts')).createMetrics(metrics).text
        return text()
      },
    }),
  ]
}
