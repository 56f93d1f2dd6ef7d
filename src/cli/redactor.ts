import { databaseSecrets } from '../config/database-url.ts'
import { type Environment, secretValues } from '../config/env.ts'

/** Shorter values are not redacted: they are weak secrets and would also match parts of ordinary words. */
const SECRET_LENGTH_MIN = 6

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
        clean = clean.replaceAll(secret, '[secret]')
      }
      return clean
    },
  }
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
