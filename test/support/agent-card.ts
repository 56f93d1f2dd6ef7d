import * as z from 'zod'

/** A strict schema of the A2A 1.0 agent card: it checks the required fields and refuses unknown fields. */
const Scheme = z.union([
  z.strictObject({
    httpAuthSecurityScheme: z.strictObject({
      scheme: z.string(),
      description: z.string().optional(),
      bearerFormat: z.string().optional(),
    }),
  }),
  z.strictObject({
    apiKeySecurityScheme: z.strictObject({
      location: z.string(),
      name: z.string(),
      description: z.string().optional(),
    }),
  }),
])
const Requirement = z.strictObject({
  schemes: z.record(z.string(), z.strictObject({ list: z.array(z.string()) })),
})
export const StrictAgentCard = z.strictObject({
  name: z.string().min(1),
  description: z.string().min(1),
  supportedInterfaces: z
    .array(
      z.strictObject({
        url: z.url(),
        protocolBinding: z.enum(['JSONRPC', 'HTTP+JSON', 'GRPC']),
        protocolVersion: z.string(),
        tenant: z.string().optional(),
      }),
    )
    .min(1),
  version: z.string().min(1),
  capabilities: z.strictObject({
    streaming: z.boolean().optional(),
    pushNotifications: z.boolean().optional(),
    extendedAgentCard: z.boolean().optional(),
    extensions: z
      .array(
        z.strictObject({
          uri: z.string(),
          description: z.string().optional(),
          required: z.boolean().optional(),
          params: z.record(z.string(), z.unknown()).optional(),
        }),
      )
      .optional(),
  }),
  provider: z.strictObject({ url: z.url(), organization: z.string() }).optional(),
  documentationUrl: z.url().optional(),
  iconUrl: z.url().optional(),
  securitySchemes: z.record(z.string(), Scheme).optional(),
  securityRequirements: z.array(Requirement).optional(),
  defaultInputModes: z.array(z.string()).min(1),
  defaultOutputModes: z.array(z.string()).min(1),
  skills: z
    .array(
      z.strictObject({
        id: z.string().min(1),
        name: z.string().min(1),
        description: z.string().min(1),
        tags: z.array(z.string()).min(1),
        examples: z.array(z.string()).optional(),
        inputModes: z.array(z.string()).optional(),
        outputModes: z.array(z.string()).optional(),
        securityRequirements: z.array(Requirement).optional(),
      }),
    )
    .min(1),
})
