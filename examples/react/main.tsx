import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { Book } from './Book.tsx'

const TITLES = [
  'Bulldozer',
  'Red Horse Hill',
  'The Harbor Light',
  'A Field of Rye',
  'Night Train North',
  'The Glass Orchard',
  'Salt and Cedar',
  'Eleven Winters',
]

createRoot(document.querySelector('#root') as Element).render(
  <StrictMode>
    <h1>Books</h1>
    <ul>
      {TITLES.map((name) => (
        <Book key={name} name={name} />
      ))}
    </ul>
  </StrictMode>,
)
