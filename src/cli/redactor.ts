import { databaseSecrets } from '../config/database-url.ts'
import { type Environment, secretValues } from '../config/env.ts'

/** Shorter values are not redacted: they are weak secrets and would also match parts of ordinary words. */
const SECRET_LENGTH_MIN = 6

/**
 * Words of the texts of stoa and PostgreSQL that some choose as a password. A text that holds such a word tells nobody that
 * it is the secret. So it is removed only where a secret stands: in a URL, or after the name of one.
 */
const ORDINARY = new Set(
  'database default docker example ledger localhost market password payment postgres postgresql process public secret seller server wallet worker'.split(
    ' ',
  ),
)
const NAMES = 'password|passwd|passphrase|pwd|pass|secret|token|key'

/** Removes known secrets from text for a log, an error line or a crash report (T21). */
export type Redactor = { add(secret: string | undefined): void; redact(text: string): string }

export function createRedactor(environment: Environment): Redactor {
  const secrets = new Set<string>()
  const add = (secret: string | undefined) => {
    for (const form of formsOf(secret?.trim() ?? '')) if (form.length >= SECRET_LENGTH_MIN) secrets.add(form)
  }
  for (const value of secretValues(environment)) add(value)
  return {
    add,
    redact(text) {
      let clean = text
      // Longest first: a key without 0x is part of the key with it.
      for (const secret of [...secrets].sort((a, b) => b.length - a.length)) {
        clean = ORDINARY.has(secret.toLowerCase())
          ? clean.replace(whereSecret(secret), '[secret]')
          : clean.replaceAll(secret, '[secret]')
      }
      return clean
    },
  }
}

/** Finds a word before the @ of a URL, and after `password=`, `"password": "` and the like. */
function whereSecret(word: string): RegExp {
  const places = [
    `(?<=:)${word}(?=@)`,
    String.raw`(?<=(?:${NAMES})\s?=\s?["']?)${word}(?!\w)`,
    String.raw`(?<=(?:${NAMES})["']?\s?:\s?["']?)${word}(?=["',;}\]]|\s*$)`,
  ]
  return new RegExp(places.join('|'), 'gim')
}

/** The forms of a secret: as given, without 0x, in upper and lower case, inside JSON, and as the path of a URL. */
function formsOf(secret: string): string[] {
  const key = /^(?:0x)?([0-9a-f]{64})$/i.exec(secret)?.[1]
  if (key !== undefined) return [key.toLowerCase(), key.toUpperCase(), key]
  const url = /^https?:/i.test(secret) ? URL.parse(secret) : null
  // A host is not secret. Hiding it would hide which endpoint failed.
  if (url !== null) return [url.pathname + url.search, url.password].filter((part) => part.length > 8)
  if (/^postgres(ql)?:/i.test(secret)) return databaseSecrets(secret)
  return [secret, JSON.stringify(secret).slice(1, -1)]
}
