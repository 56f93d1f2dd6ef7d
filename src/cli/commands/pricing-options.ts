import { UsdcText } from '../../config/values.ts'
import { formatPrice } from '../../schema/amount.ts'
import { Pricing, rateNames } from '../../schema/pricing.ts'
import { option } from '../command.ts'
import { UsageError } from '../exit-code.ts'

/** The flags of a metered agent. */
export const pricingOptions = {
  perCall: option('--per-call <usdc>', 'price of each call, beside the prices by use', UsdcText),
  per1kInputTokens: option('--per-1k-input-tokens <usdc>', 'price of 1000 tokens that the model reads', UsdcText),
  per1kOutputTokens: option('--per-1k-output-tokens <usdc>', 'price of 1000 tokens that the model writes', UsdcText),
  perSecond: option('--per-second <usdc>', 'price of a second of work', UsdcText),
  chargeMax: option('--charge-max <usdc>', 'the most that one call by use costs; required with them', UsdcText),
} as const

type Given = { [flag in keyof typeof pricingOptions]?: bigint | undefined }

/** The prices by use. Undefined: no flag is given. @throws UsageError */
export function readPricing(flags: Given): Pricing | undefined {
  const [per_call, per_1k_input_tokens] = [flags.perCall, flags.per1kInputTokens]
  const rates = {
    per_call,
    per_1k_input_tokens,
    per_1k_output_tokens: flags.per1kOutputTokens,
    per_second: flags.perSecond,
  }
  const { chargeMax: max } = flags
  if (max === undefined && rateNames.every((name) => rates[name] === undefined)) return undefined
  if (max === undefined) throw new UsageError('--charge-max is missing: give the most that one call may cost')
  const pricing = { max, ...Object.fromEntries(Object.entries(rates).filter(([, rate]) => rate !== undefined)) }
  const checked = Pricing.safeParse(
    Object.fromEntries(Object.entries(pricing).map(([name, rate]) => [name, Number(formatPrice(rate!))])),
  )
  if (checked.success) return checked.data
  const [issue] = checked.error.issues
  throw new UsageError(
    `--${String(issue?.path[0] ?? 'charge-max')
      .replaceAll('_', '-')
      .replace(/^max$/, 'charge-max')}: ${issue?.message}`,
  )
}
