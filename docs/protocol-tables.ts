/** Tables of docs/protocol.md, out of the schemas that check every message. */
import * as z from 'zod'
import {
  ChannelConfig,
  ChannelDeposit,
  ChannelPayment,
  ChannelStatement,
  ChannelTerms,
  Charge,
} from '../src/schema/channel.ts'
import { ListingRecord } from '../src/schema/listing.ts'
import { Authorization, PaymentEnvelope, PaymentRequirements } from '../src/schema/payment.ts'
import { ListedPricing, Units } from '../src/schema/pricing.ts'
import { Receipt } from '../src/schema/receipt.ts'
import { workMessages } from '../src/schema/work.ts'
import { x402Errors, x402Messages } from '../src/schema/x402.ts'
import { fieldRows, type Schema } from './schema-table.ts'

const schemaOf = (type: z.ZodType) =>
  z.toJSONSchema(type, { io: 'input', unrepresentable: 'any', reused: 'inline' }) as Schema

/** Types that other messages hold, under the headings they have on the page. */
const channels = { ChannelPayment, ChannelConfig, ChannelDeposit, Charge, Units, ChannelStatement, ChannelTerms }
const inner = {
  PaymentRequirements,
  PaymentEnvelope,
  Authorization,
  ...channels,
  Receipt,
  ListingRecord,
  ListedPricing,
}
const link = (name: string) => (Object.hasOwn(inner, name) ? `[${name}](#${name.toLowerCase()})` : name)

export function protocolTables(): Record<string, string> {
  const messages = Object.entries(x402Messages).flatMap(([name, type]) => [`### \`${name}\``, '', ...table(type), ''])
  const work = Object.entries(workMessages).flatMap(([name, type]) => [`### \`${name}\``, '', ...table(type), ''])
  const types = Object.entries(inner).flatMap(([name, type]) => [`### ${name}`, '', ...table(type), ''])
  const errors = Object.entries(x402Errors).map(
    ([name, { code, retryable }]) => `| ${code} | \`${name}\` | ${retryable ? 'yes' : 'no'} |`,
  )
  return {
    messages: messages.join('\n').trimEnd(),
    work: work.join('\n').trimEnd(),
    types: types.join('\n').trimEnd(),
    errors: ['| Code | Name | Retry |', '|---|---|---|', ...errors].join('\n'),
  }
}

function table(type: z.ZodType): string[] {
  const schema = resolved(schemaOf(type))
  return ['| Field | Type | |', '|---|---|---|', ...fieldRows(named(schema), link)]
}

/** A type that has a name of its own stands behind a reference, even where it is all there is. */
function resolved(schema: Schema): Schema {
  const name = (schema.$ref as string | undefined)?.split('/').at(-1)
  return name === undefined ? schema : (schema.$defs as Record<string, Schema>)[name]!
}

/** An inner object that has a name of its own is shown by it. */
function named(schema: Schema): Schema {
  const properties = Object.entries((schema.properties ?? {}) as Record<string, Schema>).map(([name, field]) => [
    name,
    nameIn(field),
  ])
  return { ...schema, properties: Object.fromEntries(properties) }
}

function nameIn(field: Schema): Schema {
  const id = field.id ?? (field.anyOf as Schema[] | undefined)?.map(({ id }) => id).find((one) => one !== undefined)
  if (typeof id !== 'string' || !Object.hasOwn(inner, id)) return field
  return { $ref: `#/${id}`, description: field.description }
}
