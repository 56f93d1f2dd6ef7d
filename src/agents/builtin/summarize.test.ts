import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { summarize } from './summarize.ts'

const signal = new AbortController().signal

/** A text, a sentence that is beside its point, and how long its summary is. */
const texts = {
  English: {
    text: `The honey bee colony survives winter by forming a tight cluster around its queen. Worker bees in the cluster shiver
their flight muscles to produce heat. The queen is at the warm center of the cluster. My aunt once visited Lisbon by train.
The bees on the outside of the cluster slowly rotate inwards so that no bee gets too cold. Honey stored in summer is the fuel
that lets the cluster produce heat all winter. A colony that has stored too little honey will starve before spring.
Beekeepers therefore leave enough honey in the hive for the winter.`,
    aside: 'Lisbon',
    topic: /cluster|honey/,
    sentences: 3,
  },
  German: {
    text: `Die Energiewende verändert das Stromnetz grundlegend. Windkraft und Sonnenenergie liefern inzwischen mehr als die Hälfte
des Stroms. Weil Wind und Sonne schwanken, muss das Stromnetz flexibler werden. Speicher können überschüssigen Strom aufnehmen und
später wieder abgeben. Gestern hat Dr. Müller in Bremen Kuchen gekauft. Neue Leitungen sollen den Windstrom aus dem Norden in den
Süden bringen. Der Ausbau des Stromnetzes kommt jedoch nur langsam voran. Ohne neue Leitungen und Speicher kann die Energiewende
nicht gelingen.`,
    aside: 'Bremen',
    topic: /Stromnetz|Energiewende/,
    sentences: 3,
  },
  Japanese: {
    text: `人工知能は医療の現場で広く使われ始めている。画像診断では、人工知能が医師の見落としを減らすことが期待されている。ある病院では、人工知能を使った画像診断により診断時間が半分になった。昨日の昼ご飯はカレーだった。一方で、人工知能の判断の根拠が分かりにくいという課題もある。医師は人工知能の判断を確認し、最終的な責任を負う必要がある。`,
    aside: 'カレー',
    topic: /人工知能/,
    sentences: 2,
  },
  Chinese: {
    text: `城市地铁是现代城市公共交通的骨干。地铁可以大量减少地面交通的拥堵。许多城市正在扩建地铁线路。我家的猫喜欢睡觉。地铁建设的成本很高，但长期来看可以节省能源。专家认为，城市应当优先发展地铁和公共交通。`,
    aside: '猫',
    topic: /地铁/,
    sentences: 2,
  },
  Russian: {
    text: `Лесные пожары ежегодно уничтожают миллионы гектаров леса в Сибири. Причиной большинства лесных пожаров становится человек.
Сухая и жаркая погода помогает огню быстро распространяться. Вчера я купил новые ботинки. Спутники помогают обнаруживать пожары в
отдалённых районах. Раннее обнаружение пожаров позволяет спасти лес и снизить ущерб.`,
    aside: 'ботинки',
    topic: /пожар/,
    sentences: 2,
  },
  Arabic: {
    text: `تعاني المدن الكبيرة من نقص المياه بسبب الجفاف. تساعد محطات تحلية المياه المدن الساحلية على توفير مياه الشرب. تحلية المياه تحتاج إلى طاقة كثيرة. أحب أخي كرة القدم. لذلك تستخدم بعض محطات تحلية المياه الطاقة الشمسية. توفير المياه في المدن تحد كبير في المستقبل.`,
    aside: 'كرة القدم',
    topic: /المياه/,
    sentences: 2,
  },
}

test.each(Object.entries(texts))(
  'a summary of %s text is its central sentences in their order, and not the one beside the point',
  async (_, { text, aside, topic, sentences }) => {
    const plain = text.replace(/\n/g, ' ')
    const summary = await summarize(text, signal)
    expect(summary).not.toContain(aside)
    const parts = summary.split(/(?<=[.。])\s*/).filter((part) => part !== '')
    expect(parts.length).toBe(sentences)
    let at = 0
    for (const part of parts) {
      expect(part).toMatch(topic)
      const found = plain.indexOf(part, at)
      expect(found).toBeGreaterThanOrEqual(at)
      at = found + part.length
    }
  },
)

test('a short text is its own summary, an empty one is refused with the fix', async () => {
  expect(await summarize('Only one sentence here.', signal)).toBe('Only one sentence here.')
  expect(await summarize('no full stop', signal)).toBe('no full stop')
  for (const text of ['', ' \n\t', '... !!! 🚀']) {
    await expect(summarize(text, signal)).rejects.toMatchObject({
      code: 'AGENT_FAILED',
      message: 'there is no text to summarize: send the text as the task',
    })
  }
})

test('headings, lists, tables and code are no sentences, unless there is nothing else', async () => {
  const text = `# The Market\n\nAgents are sold on the market. Buyers pay for agents on the market.\n\n- market agents\n| market | agents |\n\`\`\`\nmarket.agents()\n\`\`\`\n`
  const summary = await summarize(text, signal)
  expect(['Agents are sold on the market.', 'Buyers pay for agents on the market.']).toContain(summary)
  expect(await summarize('- only a list item', signal)).toBe('only a list item')
})

test('a repeated sentence is told once', async () => {
  const summary = await summarize('The cat sat on the mat today. '.repeat(50), signal)
  expect(summary).toBe('The cat sat on the mat today.')
})

test('sentences that say nearly the same are not told twice', async () => {
  const text = `The dam holds the river back and gives power to the valley. The dam holds the river back and gives power to the whole valley.
The river dam gives power to the valley and holds the river back. Fishermen fear that the salmon will not pass the dam.`
  const summary = await summarize(text, signal)
  expect(summary).toContain('salmon')
})

test('abbreviations end no sentence', async () => {
  const text = 'Dr. Smith met Mr. Jones at No. 5 Main St. on Monday.'
  expect(await summarize(text, signal)).toBe(text)
})

test('any text gives pieces of itself, well-formed, the same each time (T8)', async () => {
  const words = fc.constantFrom(
    'the ',
    'seller ',
    'pays. ',
    'Agents ',
    'work! ',
    '\n',
    '\n\n',
    '。',
    '地铁',
    '# ',
    '- ',
    '😀',
    '\ud83d',
    '. ',
  )
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.oneof(words, fc.string({ unit: 'binary', maxLength: 8 })), { maxLength: 60 }),
      async (parts) => {
        const text = parts.join('')
        const [first, second] = await Promise.allSettled([summarize(text, signal), summarize(text, signal)])
        expect(second).toEqual(first)
        if (first.status === 'rejected') {
          expect(first.reason.code).toBe('AGENT_FAILED')
          return
        }
        expect(first.value.isWellFormed()).toBe(true)
        expect(first.value.trim()).not.toBe('')
        const letters = (all: string) =>
          all
            .toWellFormed()
            .match(/[\p{L}\p{N}]/gu)
            ?.sort() ?? []
        expect(letters(first.value).length).toBeLessThanOrEqual(letters(text).length)
      },
    ),
    { numRuns: 300 },
  )
})

const words = ['alpha', 'beta', 'gamma', 'delta', 'network', 'payment', 'seller', 'buyer', 'agent', 'listing']
/** Four megabytes of different sentences. */
function longText(): string {
  return Array.from({ length: 60_000 }, (_, i) => {
    const ten = Array.from({ length: 10 }, (_, j) => words[(i * 7 + j * (i % 13)) % words.length])
    return `${ten.join(' ')} ${i}. `
  }).join('')
}

test('a text of megabytes is summarized, and the rest of the node goes on meanwhile (T7)', async () => {
  let turns = 0
  let isDone = false
  const others = (async () => {
    while (!isDone) {
      turns++
      await setImmediate()
    }
  })()
  const summary = await summarize(longText(), signal)
  isDone = true
  await others
  expect(summary.length).toBeGreaterThan(0)
  expect(summary.length).toBeLessThan(8 * 601)
  expect(turns).toBeGreaterThan(10)
})

test('a summary stops when it is canceled', async () => {
  const controller = new AbortController()
  const running = summarize(longText(), controller.signal)
  controller.abort(new Error('enough'))
  await expect(running).rejects.toThrow('enough')
})

test('texts without sentences or spaces are cut into pieces that are whole characters', async () => {
  for (const text of ['x'.repeat(100_000), '😀a'.repeat(50_000), 'word '.repeat(50_000)]) {
    const summary = await summarize(text, signal)
    expect(summary.length).toBeLessThanOrEqual(8 * 601)
    expect(summary.isWellFormed()).toBe(true)
    expect(summary).not.toContain('\ufffd')
  }
})
