/** The maxima of the wire contract, as plain numbers for code that needs no schema. */

/** Bytes of UTF-8: as base64 beside a payment, and 4 KiB of message, a task must fit one frame of 8 MiB. */
export const TASK_BYTES_MAX = ((8 * 1024 * 1024 - 4096) / 4) * 3
/** Limit of a request body in bytes. JSON escapes make a task longer than its text. */
export const BODY_BYTES_MAX = 8.5 * 1024 * 1024

/** Default limit of open connections from one IP address, or one /64. */
export const CONNECTIONS_PER_ADDRESS = 64

/** Fields of an agent that only the operator may write, in agents.yaml. */
export const operatorFields = [
  'command',
  'http',
  'module',
  'a2a',
  'mcp_tool',
  'operation',
  'worker',
  'mcp',
  'model_url',
  'runs_max',
  'api_key_env',
  'instructions_file',
] as const

/** Items per page of a list: the maximum and the default. */
export const PAGE_ITEMS_MAX = 200
export const PAGE_ITEMS = 50
/** Characters per page of a list. A page ends early there, because tasks and results can be megabytes each. */
export const PAGE_LENGTH_MAX = 4 * 1024 * 1024
/** The longest time, in seconds, that an answer may wait for something to end. */
export const WAIT_SECONDS_MAX = 60

/** The longest gossip message, in bytes: about the listings of one seller. */
export const GOSSIP_BYTES_MAX = 64 * 1024

/** Characters of an agent's name and description, as every node accepts them in a listing. */
export const NAME_LENGTH_MAX = 80
export const DESCRIPTION_LENGTH_MAX = 4000
/** Tags of an agent, and characters of a tag, in listings and in queries. */
export const TAGS_MAX = 16
export const TAG_LENGTH_MAX = 32
/** Characters of a model's name. */
export const MODEL_LENGTH_MAX = 200
/** Limit of a model's private instructions, in characters, and of its answer, in tokens. */
export const INSTRUCTIONS_LENGTH_MAX = 64_000
export const ANSWER_TOKENS_MAX = 1_000_000
/** The largest result that an agent may be allowed, in bytes. As base64 it fits one frame. */
export const RESULT_BYTES_MAX = 4 * 1024 * 1024

/** Days for which an API token may hold: ten years. */
export const TOKEN_DAYS_MAX = 3_660

/** Listings in one answer: the maximum, and the default. */
export const PAGE_LISTINGS_MAX = 500
/** Characters of a search query. A longer query is not a search, and each word costs time. */
export const QUERY_LENGTH_MAX = 400

/** Receipts in one export. It is written without a pause, in about 80 ms. */
export const RECEIPTS_EXPORTED_MAX = 2_000

/** Steps of one workflow that run at the same time. */
export const STEPS_AT_ONCE_MAX = 8

/** The longest time limit of one run, in seconds. Other nodes refuse a listing with a longer one. */
export const RUN_SECONDS_MAX = 3600
/** The longest execution of a buyer, in seconds: the longest run, plus 5 min to settle and to ask again. */
export const EXECUTION_SECONDS_MAX = RUN_SECONDS_MAX + 5 * 60
/** Seconds for settlement beyond the agent's own time limit (D28). */
export const SETTLEMENT_SECONDS = 120
/** The longest window of a payment, in seconds: of the longest run and its settlement. */
export const PAYMENT_WINDOW_SECONDS_MAX = RUN_SECONDS_MAX + SETTLEMENT_SECONDS
/** Default limit, in seconds, for the window of a payment that this node signs (D51). */
export const PAYMENT_WINDOW_SECONDS = 900

/** Hours for which an idempotency key, or the id of an A2A message, names the same request (D38). */
export const KEY_HOURS = 24
/** Hours for which a seller keeps a paid result after settlement, and its buyer asks for it (D32). */
export const RESULT_HOURS = 24
/** Days for which a session remembers an exchange. */
export const SESSION_DAYS = 30

/** Entries of catalogs in one answer: the maximum and the default. */
export const ENTRIES_MAX = 50
export const ENTRIES_SHOWN = 20

/** The error of a run that its caller has canceled, as it is stored. Such a run does not count as failed. */
export const RUN_CANCELED = 'the task was canceled'
