import { createRoot } from 'react-dom/client'
import { Book } from './Book.tsx'

createRoot(document.querySelector('#root') as Element).render(<Book name="Bulldozer" />)
