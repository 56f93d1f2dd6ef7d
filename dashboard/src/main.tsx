import { createRoot } from 'react-dom/client'
import { App } from './app.tsx'
import './styles/base.css'
import './styles/parts.css'
import './styles/pages.css'
import './styles/money.css'
import './styles/market.css'
import './styles/activity.css'
import { applyTheme } from './theme.ts'

applyTheme()
createRoot(document.getElementById('root')!).render(<App />)
