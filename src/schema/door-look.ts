import * as z from 'zod'

/** The protocol of peers that ask the public address of an agent for its seller. */
export const DOOR_LOOK_PROTOCOL = '/stoa/door-look/1.0.0'

/** What was seen. Nothing else of the answer is passed on, so that nobody reads the web through a peer. */
export const LookCode = z.enum(['ok', 'unreachable', 'tls', 'other_answer', 'other_terms', 'refused', 'busy'])
export type LookCode = z.infer<typeof LookCode>

/** `look`: the address of an agent, which the sender sells. */
export const DoorLook = z.object({ agent_id: z.string().max(64), url: z.string().max(512) })
/** `seen`: the answer. */
export const DoorSeen = z.object({ code: LookCode })
export type DoorLook = z.infer<typeof DoorLook>
export type DoorSeen = z.infer<typeof DoorSeen>
