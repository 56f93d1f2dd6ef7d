/** Meters of the OpenAI door. A meter has the name of its metric. */
export const openAiMeters = {
  /** outcome: `answered`, `refused`, `limited`, `failed`, `paid_but_failed` or `left`. */
  requests: 'stoa_openai_requests_total',
  joined: 'stoa_openai_joined_total',
  spent: 'stoa_openai_spent_usdc_total',
  seconds: 'stoa_openai_request_seconds',
  running: 'stoa_openai_requests_running',
} as const
