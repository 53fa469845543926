import { defineConfig } from 'vite'

const OPERATION = /graphql`\s*(?:query|mutation|subscription) (\w+)[^`]*`/g

/** Puts what relay-compiler has made in the place of each operation, as Relay's plugin for Babel does. */
export default defineConfig({
  plugins: [
    {
      name: 'relay',
      enforce: 'pre',
      transform(code) {
        const names = [...code.matchAll(OPERATION)].map(([, name]) => name)
        if (names.length === 0) return undefined
        const imports = names.map(
          (name) => `import compiled${name} from './__generated__/${name}.graphql.ts'\n`,
        )
        return `${imports.join('')}${code.replace(OPERATION, 'compiled$1')}`
      },
    },
  ],
})
