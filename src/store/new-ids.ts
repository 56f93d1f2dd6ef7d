/*
 * The ids of rows that one change inserts, for those of its statements that come after. SQLite gives a row the number after
 * the highest. PostgreSQL takes them from sequences, since others insert at the same time: postgres/translate.ts puts those
 * in place of these texts.
 */

/** The id that the next exchange gets. Insert it next, with this id. */
export const NEXT_EXCHANGE = '(SELECT coalesce(max(id), 0) + 1 FROM exchanges)'
/** The id of the exchange that was inserted last. */
export const LAST_EXCHANGE = '(SELECT max(id) FROM exchanges)'
/** The number of the payment that was inserted last. */
export const LAST_PAYMENT = '(SELECT max(no) FROM payments)'
