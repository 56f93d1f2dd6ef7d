import { AgentError } from '../runtime.ts'
import { lexRank, type Similarities, similarities } from './lex-rank.ts'
import { createPace, type Pace } from './pace.ts'
import { joinSentences, type Sentence, sentencesOf } from './sentences.ts'
import { functionWordsFor, SAMPLE_WORDS_MAX, stem, wordsOf } from './words.ts'

const SUMMARY_SENTENCES_MAX = 8
/** Sentences compared at once. A longer text is split into parts, and each part sends its best sentences. */
const PART_SENTENCES = 200
const PART_KEEPS = 20
/** Two sentences with this similarity say the same. */
const SAME = 0.8
/** Writers put the important part first. */
const OPENING_BONUS = 1.2
const SHORT_WORDS = 4
const SHORT_MALUS = 0.5

type Candidate = Sentence & { words: string[] }

/**
 * Summarizes a text in any language by its most central sentences, in their order, about the square root of all.
 * Deterministic, in time proportional to the length. @throws AgentError 'AGENT_FAILED' if there is no text
 */
export async function summarize(text: string, signal: AbortSignal): Promise<string> {
  const pace = createPace(signal)
  const all = await sentencesOf(text.toWellFormed(), pace)
  if (all.length === 0) throw new AgentError('AGENT_FAILED', 'there is no text to summarize: send the text as the task')
  const major = all.filter((sentence) => !sentence.minor)
  const sentences = withoutRepeats(major.length > 0 ? major : all)
  const size = Math.min(SUMMARY_SENTENCES_MAX, Math.max(1, Math.round(Math.sqrt(sentences.length))))
  let candidates = await tokenize(sentences, pace)
  while (candidates.length > PART_SENTENCES) candidates = await bestOfParts(candidates, pace)
  return joinSentences(choose(candidates, size).map((candidate) => candidate.text))
}

function withoutRepeats(sentences: readonly Sentence[]): Sentence[] {
  const seen = new Set<string>()
  return sentences.filter(({ text }) => !seen.has(text) && seen.add(text))
}

async function tokenize(sentences: readonly Sentence[], pace: Pace): Promise<Candidate[]> {
  const sample: string[] = []
  for (const { text } of sentences) {
    sample.push(...wordsOf(text))
    if (sample.length >= SAMPLE_WORDS_MAX) break
  }
  const functionWords = await functionWordsFor(sample)
  const candidates: Candidate[] = []
  for (const sentence of sentences) {
    await pace()
    const words = [...wordsOf(sentence.text)].filter((word) => !functionWords.has(word)).map(stem)
    candidates.push({ ...sentence, words })
  }
  return candidates
}

async function bestOfParts(candidates: readonly Candidate[], pace: Pace): Promise<Candidate[]> {
  const best: Candidate[] = []
  for (let from = 0; from < candidates.length; from += PART_SENTENCES) {
    await pace()
    best.push(...choose(candidates.slice(from, from + PART_SENTENCES), PART_KEEPS))
  }
  return best
}

/** The `size` best sentences, in their order. Each step takes the central one that adds most to those chosen. */
function choose(candidates: readonly Candidate[], size: number): Candidate[] {
  const graph = similarities(candidates.map(({ words }) => words))
  const scores = lexRank(graph).map((rank, i) => rank * form(candidates[i]!))
  const chosen = new Set<number>()
  while (chosen.size < size) {
    const next = nextBest(scores, graph, chosen)
    if (next === undefined) break
    chosen.add(next)
  }
  return candidates.filter((_, i) => chosen.has(i))
}

function nextBest(scores: readonly number[], graph: Similarities, chosen: ReadonlySet<number>): number | undefined {
  let best: number | undefined
  let bestGain = -1
  for (const [i, score] of scores.entries()) {
    if (chosen.has(i)) continue
    const nearest = Math.max(0, ...[...chosen].map((other) => graph[i]![other]!))
    const gain = nearest > SAME ? -1 : score * (1 - nearest)
    if (gain > bestGain) {
      best = i
      bestGain = gain
    }
  }
  return best
}

function form({ opens, words }: Candidate): number {
  return (opens ? OPENING_BONUS : 1) * (words.length < SHORT_WORDS ? SHORT_MALUS : 1)
}
