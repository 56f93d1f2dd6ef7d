/** The API token, if the node asks for one. It lives as long as the tab and is never written to disk. */
const KEY = 'stoa.token'

export function storedToken(): string | undefined {
  return sessionStorage.getItem(KEY) ?? undefined
}

export function keepToken(token: string): void {
  sessionStorage.setItem(KEY, token)
}

export function forgetToken(): void {
  sessionStorage.removeItem(KEY)
}

export function authorization(token = storedToken()): Record<string, string> {
  return token === undefined ? {} : { authorization: `Bearer ${token}` }
}
