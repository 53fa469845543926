// Checks the objects of deploy/kubernetes.yaml against the types of the Kubernetes API: TypeScript refuses fields that
// don't exist there, values of other types, and objects that lack what is required.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { parseAllDocuments } from 'yaml'

const documents = parseAllDocuments(readFileSync('deploy/kubernetes.yaml', 'utf8'), { strict: true })
const lines = documents.map((document, index) => {
  if (document.errors.length > 0) throw document.errors[0]
  const object = document.toJS()
  const { apiVersion, kind } = object
  const path = apiVersion.includes('/') ? apiVersion.replace('.k8s.io', '') : `core/${apiVersion}`
  const imported = `import type { ${kind} } from 'kubernetes-types/${path}.d.ts'`
  return `${imported}\nexport const object${index}: ${kind} = ${JSON.stringify(object, undefined, 2)}\n`
})
// Below node_modules, as the types are found from there, and git ignores it.
const folder = 'node_modules/.cache/nth'
mkdirSync(folder, { recursive: true })
writeFileSync(`${folder}/kubernetes.ts`, lines.join('\n'))
const options = [
  '--ignoreConfig',
  '--noEmit',
  '--strict',
  '--module',
  'nodenext',
  '--target',
  'es2023',
  '--skipLibCheck',
]
const only = ['--allowImportingTsExtensions', '--types', '']
const checked = spawnSync('node_modules/.bin/tsc', [...options, ...only, `${folder}/kubernetes.ts`], {
  stdio: 'inherit',
})
process.exitCode = checked.status ?? 1
