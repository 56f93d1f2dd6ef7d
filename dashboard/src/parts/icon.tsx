/** Icons drawn for these pages on a grid of 20 by 20 with one stroke. */
const signs = {
  overview: 'M3 3.500h6v7H3zM11 3.500h6v4h-6zM11 10h6v6.500h-6zM3 13h6v3.500H3z',
  market:
    'M3.500 8v8.500h13V8M2.500 8l1.500-4.500h12L17.500 8a2.500 2.500 0 0 1-5 0 2.500 2.500 0 0 1-5 0 2.500 2.500 0 0 1-5 0zM8 16.500V12h4v4.500',
  agents: 'M4 7h12v9H4zM10 7V3.500M7.500 11h.01M12.500 11h.01M7.500 13.500h5M2 10v3M18 10v3',
  activity: 'M2 10h4l2.500-6 3.500 12 2.500-6h3.500',
  approvals:
    'M10 2.500l6.500 2.500v4.500c0 4-2.800 6.700-6.500 8-3.700-1.300-6.500-4-6.500-8V5zM7 9.800l2.200 2.200L13 8',
  payments: 'M2.500 5h15v10h-15zM2.500 8.500h15M5.500 12h3',
  channels: 'M3 6.500h10M10.500 4l2.500 2.500L10.500 9M17 13.500H7M9.500 11L7 13.500l2.500 2.500M3 13.500h1M16 6.500h1',
  workflows: 'M3 3.500h5v4H3zM12 12.500h5v4h-5zM3 12.500h5v4H3zM5.500 7.500v5M8 14.500h4M8 5.500h3.500a3 3 0 0 1 3 3v4',
  sessions: 'M3 4h14v9.500H9l-3.500 3v-3H3zM6.500 7.500h7M6.500 10h4.500',
  doors: 'M5 17V3.500h8V17M3 17h14M13 6l3.500 1V17M10.500 10.500h.01',
  network:
    'M10 2.500a2 2 0 1 1 0 4 2 2 0 0 1 0-4zM4.500 13a2 2 0 1 1 0 4 2 2 0 0 1 0-4zM15.500 13a2 2 0 1 1 0 4 2 2 0 0 1 0-4zM9 6.300L5.500 13M11 6.300l3.500 6.700M6.500 15h7',
  machines: 'M3 3.500h14v5.500H3zM3 11h14v5.500H3zM6 6.300h.01M6 13.800h.01M10 6.300h4M10 13.800h4',
  wallet: 'M3 6.500V15a1.500 1.500 0 0 0 1.500 1.500h12v-10h-12A1.500 1.500 0 0 1 4.500 3.500H15v3M13.500 11.500h.01',
  settings: 'M3 5.500h7M14 5.500h3M12 3.500v4M3 10h2M9 10h8M7 8v4M3 14.500h8M15 14.500h2M13 12.500v4',
} as const

export type Sign = keyof typeof signs

export function Icon({ sign }: { sign: Sign }) {
  return (
    <svg className="icon" viewBox="0 0 20 20" width="18" height="18" aria-hidden="true">
      <path d={signs[sign]} />
    </svg>
  )
}
