/** How much of a sentence's weight comes from its neighbors. */
const DAMPING = 0.85
const ROUNDS_MAX = 40
const SETTLED = 1e-6

/** Cosine similarities of sentences, row by row, from 0 to 1. A sentence's similarity to itself is 0. */
export type Similarities = readonly Float64Array[]

/** Similarity by shared words, rare ones count more (TF-IDF). At most some hundred sentences: it compares all pairs. */
export function similarities(sentences: readonly (readonly string[])[]): Similarities {
  const postings = new Map<string, { sentence: number; weight: number }[]>()
  for (const [sentence, words] of sentences.entries()) {
    for (const [word, weight] of counts(words)) {
      const holders = postings.get(word)
      if (holders === undefined) postings.set(word, [{ sentence, weight }])
      else holders.push({ sentence, weight })
    }
  }
  const squares = new Float64Array(sentences.length)
  const rows = sentences.map(() => new Float64Array(sentences.length))
  for (const holders of postings.values()) {
    const rarity = Math.log(1 + sentences.length / holders.length) ** 2
    for (const { sentence, weight } of holders) {
      squares[sentence]! += rarity * weight * weight
      const row = rows[sentence]!
      for (const other of holders) row[other.sentence]! += rarity * weight * other.weight
    }
  }
  for (const [i, row] of rows.entries()) {
    for (let j = 0; j < row.length; j++)
      row[j] = i === j || row[j] === 0 ? 0 : row[j]! / Math.sqrt(squares[i]! * squares[j]!)
  }
  return rows
}

/**
 * How central each sentence is, about 1 on average: many central sentences resemble it. LexRank (Erkan and Radev, 2004)
 * in its continuous form: PageRank over the graph of similarities.
 */
export function lexRank(graph: Similarities): number[] {
  const totals = graph.map((row) => row.reduce((sum, similarity) => sum + similarity, 0))
  let ranks = graph.map(() => 1)
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const shares = ranks.map((rank, i) => (totals[i] === 0 ? 0 : rank / totals[i]!))
    const next = graph.map(
      (row) => 1 - DAMPING + DAMPING * row.reduce((sum, similarity, j) => sum + similarity * shares[j]!, 0),
    )
    const change = next.reduce((most, rank, i) => Math.max(most, Math.abs(rank - ranks[i]!)), 0)
    ranks = next
    if (change < SETTLED) break
  }
  return ranks
}

function counts(words: readonly string[]): Map<string, number> {
  const count = new Map<string, number>()
  for (const word of words) count.set(word, (count.get(word) ?? 0) + 1)
  return count
}
