import type { Books, Bought, Charge } from './books.ts'
import type { Wish } from './load.ts'

/** A broken rule, and the records that show it. */
export type Violation = { rule: string; what: string }

export type Evidence = {
  books: Books
  charges: readonly Charge[]
  wishes: readonly Wish[]
  /** By buyer, in atomic units. */
  budgets: Readonly<Record<string, bigint>>
  /** The name of the buyer that owns an account. */
  buyerOf(account: string): string | undefined
  sellerOf(account: string): string | undefined
  /** The chain's time at the end of the run. */
  nowSeconds: number
  /** The most that each seller may have delivered without payment. */
  exposureMax: bigint
}

export type Sums = { bought: number; delivered: number; charged: number; inDoubt: number; free: number }

/** Compares the chain with both books and with the answers that buyers received. */
export function judge(evidence: Evidence): { violations: Violation[]; sums: Sums } {
  const violations: Violation[] = []
  const found = (rule: string, what: string) => void violations.push({ rule, what })
  const { books, charges, wishes } = evidence
  for (const what of books.unsound) found('databases are sound', what)

  const purchases = [...books.bought].flatMap(([buyer, bought]) => bought.map((one) => ({ buyer, ...one })))
  const byNonce = new Map(purchases.flatMap((one) => (one.nonce === undefined ? [] : [[one.nonce, one] as const])))
  const soldByNonce = new Map(
    [...books.sold].flatMap(([seller, sold]) => sold.map((one) => [one.nonce, { seller, ...one }] as const)),
  )
  const charged = new Map<string, Charge>()
  for (const charge of charges) {
    if (charged.has(charge.nonce)) found('an authorization moves money once', `${charge.nonce} in ${charge.txHash}`)
    charged.set(charge.nonce, charge)
    const text = `${charge.nonce} (${charge.amount}, ${charge.txHash})`
    const bought = byNonce.get(charge.nonce)
    if (bought === undefined) found('a charge stands in the book of its buyer', text)
    else judgeCharged(bought, text, found)
    const sold = soldByNonce.get(charge.nonce)
    if (sold === undefined) found('a charge stands in the book of its seller', text)
    else if (sold.state === 'voided' || sold.state === 'unsettled') {
      found('a charge is earned in the book of its seller', `${text}: ${sold.seller} says ${sold.state}, ${sold.error}`)
    }
    const isAgreed = [bought, sold].every((one) => one === undefined || one.amount === charge.amount)
    const isItsSellers = sold === undefined || evidence.sellerOf(charge.to) === sold.seller
    if (!isAgreed || !isItsSellers) {
      const said = `${bought?.amount} by ${bought?.buyer}, ${sold?.amount} for ${sold?.seller}`
      found('a charge is what was agreed', `${text} to ${charge.to}: ${said}`)
    }
  }

  judgeBooked(byNonce, soldByNonce, charged, found)
  judgeKeys(purchases, charged, found)
  judgeRuns(books, byNonce, wishes, found)
  judgeAnswers(wishes, purchases, found)
  for (const [buyer, limit] of Object.entries(evidence.budgets)) {
    const spent = charges
      .filter(({ from }) => evidence.buyerOf(from) === buyer)
      .reduce((sum, { amount }) => sum + amount, 0n)
    if (spent > limit) found('a budget is never passed', `${buyer} was charged ${spent} of ${limit}`)
  }
  const free = purchases.filter(
    ({ nonce, status, validBeforeSeconds = Number.POSITIVE_INFINITY }) =>
      nonce !== undefined && status === 'completed' && !charged.has(nonce) && validBeforeSeconds < evidence.nowSeconds,
  )
  for (const seller of books.sold.keys()) {
    const given = free
      .filter(({ nonce }) => soldByNonce.get(nonce!)?.seller === seller)
      .reduce((sum, { amount = 0n }) => sum + amount, 0n)
    if (given > evidence.exposureMax) found('nothing is free beyond the bounds', `${seller} gave work for ${given}`)
  }
  const sums = {
    bought: purchases.length,
    delivered: purchases.filter(({ status }) => status === 'completed').length,
    charged: charges.length,
    inDoubt: purchases.filter(({ status }) => status === 'executing' || status === 'pending').length,
    free: free.length,
  }
  return { violations, sums }
}

type Found = (rule: string, what: string) => void

function judgeCharged(bought: Bought & { buyer: string }, text: string, found: Found): void {
  const { buyer, order, status, state, output, task, error } = bought
  if (state === 'released') found('a charge counts in the book of its buyer', `${text}: ${buyer} says released`)
  if (status === 'completed') {
    if (output !== task) found('a result is whole', `${buyer}, order ${order}: ${output?.length} of ${task.length}`)
  } else if (status !== 'executing') {
    found('what was paid for is not lost', `${text}: order ${order} of ${buyer} is ${status}: ${error}`)
  }
}

/** Finds entries of the books that the chain does not confirm. */
function judgeBooked(
  byNonce: ReadonlyMap<string, Bought & { buyer: string }>,
  soldByNonce: ReadonlyMap<string, { seller: string; state: string; nonce: string }>,
  charged: ReadonlyMap<string, Charge>,
  found: Found,
): void {
  for (const { nonce, seller, state } of soldByNonce.values()) {
    if (state === 'settled' && !charged.has(nonce)) found('what is settled is on the chain', `${nonce} at ${seller}`)
    if (!byNonce.has(nonce)) found('what a seller accepted its buyer knows', `${nonce} at ${seller}`)
  }
}

/** A task is named after its wish and step, so each name must be bought once. */
function judgeKeys(
  purchases: readonly (Bought & { buyer: string })[],
  charged: ReadonlyMap<string, Charge>,
  found: Found,
): void {
  const paid = new Map<string, string[]>()
  for (const { task, nonce, order } of purchases) {
    if (nonce === undefined || !charged.has(nonce)) continue
    const key = task.split('|')[0]!
    paid.set(key, [...(paid.get(key) ?? []), order])
  }
  for (const [key, orders] of paid) {
    if (orders.length > 1) found('a wish is bought once', `${key}: orders ${orders.join(', ')}`)
  }
}

/**
 * Each authorization that a seller accepted buys one run. A run that failed after its settlement may be repeated, and so
 * may a run that a kill ended before its result was on disk, if its payment had settled first (D45).
 */
function judgeRuns(books: Books, byNonce: ReadonlyMap<string, Bought>, wishes: readonly Wish[], found: Found): void {
  // The judge does not know which agents ran the steps of a workflow, and some agents are free.
  const paid = new Set(wishes.filter(({ kind, agent }) => kind !== 'workflow' && agent !== 'free').map(({ id }) => id))
  for (const [seller, runs] of books.runs) {
    const accepted = new Map<string, number>()
    const mayRunAgain = new Set<string>()
    for (const { nonce, state, settledFirst } of books.sold.get(seller) ?? []) {
      const bought = byNonce.get(nonce)
      if (bought === undefined) continue
      const key = bought.task.split('|')[0]!
      accepted.set(key, (accepted.get(key) ?? 0) + 1)
      if (state === 'settled' && (settledFirst || bought.status !== 'completed')) mayRunAgain.add(key)
    }
    for (const [key, ran] of runs) {
      if (!accepted.has(key) && !paid.has(key)) continue
      const count = accepted.get(key) ?? 0
      if (ran > count && !mayRunAgain.has(key)) {
        found('an authorization buys one run', `${key} ran ${ran} times at ${seller} for ${count} authorizations`)
      }
    }
  }
}

/** Each answer that a buyer received must stand in the buyer's book. */
function judgeAnswers(wishes: readonly Wish[], purchases: readonly (Bought & { buyer: string })[], found: Found): void {
  const byOrder = new Map(purchases.map((one) => [one.order, one]))
  for (const { id, buyer, kind, answer } of wishes) {
    if (kind !== 'execute' || answer?.status !== 200) continue
    const {
      order_id: orderId,
      output,
      payment,
    } = answer.body as { order_id?: string; output: string; payment: unknown }
    // A free result says so itself if a full disk did not store its order.
    if (orderId === undefined && payment === null) continue
    const stored = byOrder.get(orderId ?? '')
    if (stored === undefined) found('what was answered stands in the book', `${id}: order ${orderId} of ${buyer}`)
    else if (output !== stored.task) found('a result is whole', `${id}: answered ${output.length} characters`)
  }
}
