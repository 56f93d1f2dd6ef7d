import { useMemo } from 'react'
import { layOut } from '../graph-layout.ts'

export type GraphNode = { id: string; depends_on: readonly string[]; title: string; text: string; state: string }

const WIDTH = 172
const HEIGHT = 58
const GAP_X = 44
const GAP_Y = 18

const cut = (text: string, length: number) => (text.length > length ? `${text.slice(0, length - 1)}…` : text)

/** Steps and their dependencies, from left to right. The list below shows the same as text. */
export function Graph({ nodes, label }: { nodes: readonly GraphNode[]; label: string }) {
  const placed = useMemo(() => layOut(nodes), [nodes])
  const at = new Map(
    placed.map(({ id, column, row }) => [id, { x: column * (WIDTH + GAP_X), y: row * (HEIGHT + GAP_Y) }]),
  )
  const width = Math.max(...[...at.values()].map(({ x }) => x + WIDTH), WIDTH)
  const height = Math.max(...[...at.values()].map(({ y }) => y + HEIGHT), HEIGHT)
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section className="graph" tabIndex={0} aria-label={label}>
      <svg
        role="img"
        aria-label={nodes.map(({ title, state }) => `${title}: ${state}`).join(', ')}
        viewBox={`-2 -2 ${width + 4} ${height + 4}`}
        width={width + 4}
        height={height + 4}
      >
        {nodes.flatMap((node) =>
          node.depends_on.map((source) => {
            const from = at.get(source)
            const to = at.get(node.id)
            if (from === undefined || to === undefined) return null
            const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2]
            const bend = GAP_X / 2
            return (
              <path
                key={`${source} ${node.id}`}
                className="edge"
                d={`M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`}
              />
            )
          }),
        )}
        {nodes.map(({ id, title, text, state }) => {
          const { x, y } = at.get(id)!
          return (
            <g key={id} className={`node ${state}`} transform={`translate(${x} ${y})`}>
              <rect width={WIDTH} height={HEIGHT} rx="7" />
              <text x="12" y="24" className="node-title">
                {cut(title, 20)}
              </text>
              <text x="12" y="44" className="node-text">
                {cut(text, 24)}
              </text>
            </g>
          )
        })}
      </svg>
    </section>
  )
}
