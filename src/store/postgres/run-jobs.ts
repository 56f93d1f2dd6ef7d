import type { Answer, Query, Step } from '../query.ts'
import type { Outcome } from './batch.ts'
import type { Connection } from './connection.ts'
import { codeOf } from './errors.ts'
import { BEGIN, COMMIT, locking, type Sent, sentOf } from './sent.ts'

/** What came of one query: its value, or what its last step threw at the answers. */
export type Result = { readonly value: unknown } | { readonly error: unknown }

/**
 * How a transaction ended.
 * - `failed`: nothing is written, and the connection is still in the transaction. `culprit`: the query at fault, if one is.
 *   `isOwn`: the query itself threw.
 * - `fenced`: this process or connection has lost the right to write.
 * - `lost`: the connection broke. A commit that was sent may have happened. `results` are there if all answers had come.
 */
export type GroupOutcome =
  | { readonly kind: 'committed'; readonly results: readonly Result[] }
  | { readonly kind: 'failed'; readonly culprit: number | undefined; readonly error: unknown; readonly isOwn?: boolean }
  | { readonly kind: 'fenced' }
  | { readonly kind: 'lost'; readonly error: Error; readonly isCommitSent: boolean; results?: readonly Result[] }

type Run = {
  readonly index: number
  readonly query: Query<unknown>
  readonly asking: Iterator<Step, unknown, readonly Answer[]>
  result: IteratorResult<Step, unknown>
}
/** Which statements of a round are whose. */
type Share = { readonly run: Run; readonly from: number; readonly count: number }
type Round = { readonly statements: Sent[]; readonly shares: Share[]; readonly isLast: boolean }

class CulpritError extends Error {
  readonly culprit: number | undefined

  constructor(culprit: number | undefined, cause: unknown) {
    super('a query failed', { cause })
    this.culprit = culprit
  }
}

const DIVISION_BY_ZERO = '22012'

/**
 * Runs queries in one transaction, side by side: each round trip carries the next step of each.
 *
 * If what is sent is known to be the last, the commit goes with it. Otherwise it takes a round trip of its own.
 *
 * @param fence fails if this connection may not write: see holder.ts
 */
export async function runJobs(
  connection: Connection,
  fence: Sent,
  queries: readonly Query<unknown>[],
): Promise<GroupOutcome> {
  const holders = new Map<string, Run>()
  let head = [BEGIN, fence]
  try {
    const runs = queries.map(startOf)
    for (;;) {
      const round = nextRound(runs, holders)
      const statements = [...head, ...round.statements, ...(round.isLast ? [COMMIT] : [])]
      const outcome = await connection.send(statements, round.isLast ? statements.length - 1 : -1)
      const shares = round.shares.map((share) => ({ ...share, from: share.from + head.length }))
      if (outcome.kind !== 'done') return brokenOff(outcome, { runs, shares, head, round })
      if (round.isLast) return { kind: 'committed', results: lastResults(runs, shares, outcome.answers) }
      for (const share of shares) advance(share.run, answersOf(share, outcome.answers))
      head = []
    }
  } catch (error) {
    if (error instanceof CulpritError) {
      return { kind: 'failed', culprit: error.culprit, error: error.cause, isOwn: error.culprit !== undefined }
    }
    throw error
  }
}

type Reached = { runs: readonly Run[]; shares: readonly Share[]; head: readonly Sent[]; round: Round }

function brokenOff(outcome: Exclude<Outcome, { kind: 'done' }>, { runs, shares, head, round }: Reached): GroupOutcome {
  if (outcome.kind === 'lost') {
    const { error, answers } = outcome
    const isAnswered = round.isLast && answers.length >= head.length + round.statements.length
    return {
      kind: 'lost',
      error,
      isCommitSent: round.isLast,
      ...(isAnswered && { results: lastResults(runs, shares, answers) }),
    }
  }
  const { at, error } = outcome
  if (at < head.length) {
    if (codeOf(error) === DIVISION_BY_ZERO) return { kind: 'fenced' }
    return { kind: 'failed', culprit: undefined, error }
  }
  const culprit = shares.find(({ from, count }) => at >= from && at < from + count)
  return { kind: 'failed', culprit: culprit?.run.index, error }
}

function startOf(query: Query<unknown>, index: number): Run {
  return blaming(index, () => {
    const asking = query[Symbol.iterator]()
    return { index, query, asking, result: asking.next() }
  })
}

function advance(run: Run, answers: readonly Answer[]): void {
  blaming(run.index, () => {
    run.result = run.asking.next(answers)
  })
}

/** The next step of each query that does not wait for a lock of another one. */
function nextRound(runs: readonly Run[], holders: Map<string, Run>): Round {
  const statements: Sent[] = []
  const shares: Share[] = []
  let isLast = true
  for (const run of runs) {
    const from = statements.length
    const isWaiting = blaming(run.index, () => takeLocks(run, holders, statements))
    if (!isWaiting && run.result.done !== true) {
      const step = run.result.value as Exclude<Step, { lock: string }>
      blaming(run.index, () => statements.push(...step.statements.map(sentOf)))
      shares.push({ run, from: statements.length - step.statements.length, count: step.statements.length })
    } else if (statements.length > from) {
      // These statements only take locks. Nobody reads their answers.
      shares.push({ run, from, count: 0 })
    }
    if (run.result.done !== true && (isWaiting || run.query.plain === undefined)) isLast = false
  }
  const isStuck = !isLast && statements.length === 0 && shares.length === 0
  // Each of two queries waits for a lock of the other one. Alone they do not.
  if (isStuck) throw new CulpritError(undefined, new Error('queries of one group wait for each other'))
  return { statements, shares, isLast }
}

/** A lock needs no answer, so that what follows it goes in the same round trip. @returns whether it must wait for one */
function takeLocks(run: Run, holders: Map<string, Run>, statements: Sent[]): boolean {
  while (run.result.done !== true && 'lock' in run.result.value) {
    const { lock } = run.result.value
    const holder = holders.get(lock)
    if (holder !== undefined && holder !== run && holder.result.done !== true) return true
    if (holder === undefined) statements.push(...locking(lock))
    holders.set(lock, run)
    run.result = run.asking.next([])
  }
  return false
}

function answersOf({ from, count }: Share, answers: readonly Answer[]): readonly Answer[] {
  return answers.slice(from, from + count)
}

/** The values, once what was sent last is answered. What throws here throws although it is written. */
function lastResults(runs: readonly Run[], shares: readonly Share[], answers: readonly Answer[]): Result[] {
  const errors = new Map<Run, unknown>()
  for (const share of shares) {
    try {
      share.run.result = share.run.asking.next(answersOf(share, answers))
    } catch (error) {
      errors.set(share.run, error)
    }
  }
  return runs.map((run) => (errors.has(run) ? { error: errors.get(run) } : { value: run.result.value }))
}

function blaming<T>(culprit: number, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw new CulpritError(culprit, error)
  }
}
