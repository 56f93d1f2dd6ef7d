/**
 * Refuses `npm publish` while `repository` of package.json names a host under a reserved name (RFC 2606). Nobody can own
 * such a host, so the published package would lead its readers to no source. `npm publish` runs this first.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const { repository } = JSON.parse(readFileSync(fileURLToPath(new URL('package.json', import.meta.url)), 'utf8')) as {
  repository: { url: string }
}
const host = URL.canParse(repository.url) ? new URL(repository.url).hostname : ''
const isReserved = /(?:^|\.)(?:example|invalid|test|localhost|example\.(?:com|net|org))\.?$/i.test(host)
if (isReserved) {
  console.error(
    `This package cannot be published: package.json names the repository ${repository.url}, and nobody can own ${host}. Set repository.url to the public repository.`,
  )
  process.exitCode = 1
}
