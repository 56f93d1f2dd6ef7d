import { PageHead } from '../parts/bits.tsx'
import { Link } from '../router.tsx'

export function NotFound() {
  return (
    <>
      <PageHead title="No such page" />
      <p>
        The address may be wrong or from another version. Go to the <Link to="/">overview</Link>.
      </p>
    </>
  )
}
