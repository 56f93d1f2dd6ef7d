import qrcode from 'qrcode-generator'
import { useMemo } from 'react'

/** A text as a QR code. It is dark on light in both themes, because QR readers expect that. */
export function QrCode({ text, label }: { text: string; label: string }) {
  const { path, size } = useMemo(() => {
    const code = qrcode(0, 'M')
    code.addData(text)
    code.make()
    const count = code.getModuleCount()
    let dark = ''
    for (let row = 0; row < count; row++) {
      for (let column = 0; column < count; column++) {
        if (code.isDark(row, column)) dark += `M${column} ${row}h1v1h-1z`
      }
    }
    return { path: dark, size: count }
  }, [text])
  return (
    <svg
      className="qr"
      role="img"
      aria-label={label}
      viewBox={`-4 -4 ${size + 8} ${size + 8}`}
      shapeRendering="crispEdges"
    >
      <rect x="-4" y="-4" width={size + 8} height={size + 8} fill="#fff" />
      <path d={path} fill="#000" />
    </svg>
  )
}
