/** Environment variables that a program may read (T21). None of them holds a secret. */
const ENVIRONMENT = [
  ...['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'TERM', 'TZ'],
  ...['LANG', 'LANGUAGE', 'LC_ALL', 'LC_CTYPE', 'LC_MESSAGES'],
  ...['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR'],
  ...['TMPDIR', 'TMP', 'TEMP', 'PATHEXT', 'SYSTEMROOT', 'COMSPEC', 'APPDATA', 'LOCALAPPDATA', 'USERPROFILE'],
] as const

export function commandEnvironment(readEnv: (name: string) => string | undefined): Record<string, string> {
  const env: Record<string, string> = {}
  for (const name of ENVIRONMENT) {
    const value = readEnv(name)
    if (value !== undefined) env[name] = value
  }
  return env
}
