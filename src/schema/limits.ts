/** What the wire contract allows at most: numbers alone, for whoever needs no schema. */

/**
 * The longest task, in bytes of UTF-8: as base64 beside a payment it must fit one frame of 8 MiB.
 *
 * 4 KiB of the frame are kept for the message around the task.
 */
export const TASK_BYTES_MAX = ((8 * 1024 * 1024 - 4096) / 4) * 3
/** A request's body is at most this long. JSON escapes make a task longer than it is. */
export const BODY_BYTES_MAX = 8.5 * 1024 * 1024

/** Connections that one IP address, or one /64, may have open to a node, unless its operator says otherwise. */
export const CONNECTIONS_PER_ADDRESS = 64

/** Fields of an agent that only the operator may write, in agents.yaml. */
export const operatorFields = ['command', 'http', 'module', 'a2a', 'mcp', 'api_key_env', 'instructions_file'] as const

/** How many items a page of a list holds at most, and unless the caller says otherwise. */
export const PAGE_ITEMS_MAX = 200
export const PAGE_ITEMS = 50
/** A page ends early when its items have this many characters: tasks and results can be megabytes each. */
export const PAGE_LENGTH_MAX = 4 * 1024 * 1024
/** How long an answer may wait for something to end, in seconds. */
export const WAIT_SECONDS_MAX = 60

/** The most listings one answer holds, and as many as it holds where no limit is given. */
export const PAGE_LISTINGS_MAX = 500
export const QUERY_LENGTH_MAX = 400
export const QUERY_TAGS_MAX = 16

/** Of one export of receipts: it is written without a pause, in some 80 ms. */
export const RECEIPTS_EXPORTED_MAX = 2_000

/** The longest time that a payment this node signs is valid, unless the operator says otherwise (D51). */
export const PAYMENT_WINDOW_SECONDS = 900
