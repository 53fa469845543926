// Builds the image of deploy/Dockerfile, and runs it as `docker run --read-only --tmpfs /tmp --volume …` would: as
// process 1, with a network of its own, without any capability. Started by .ci/deploy in a mount namespace.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parse } from 'yaml'
import { build, commandIn } from './dockerfile.mjs'

const [context, directory] = process.argv.slice(2)
const ADMIN_KEY = 'a-secret-of-this-check-with-enough-characters'
const mount = (...args) => execFileSync('mount', args)

mount('-t', 'tmpfs', 'tmpfs', directory)
const image = build({
  dockerfile: join(context, 'deploy/Dockerfile'),
  context,
  directory,
  say: (message) => console.log(`  ${message}`),
})

// A volume begins with the owner of the folder that it replaces.
const { root, volume, entrypoint, command, port } = image
const data = join(directory, 'volume')
const { uid, gid, mode } = statSync(join(root, volume))
mkdirSync(data, { mode })
chownSync(data, uid, gid)
mount('-t', 'tmpfs', '-o', 'mode=1777', 'tmpfs', join(root, 'tmp'))
mount('-o', 'remount,ro', root)
mount('--bind', data, join(root, volume))

const namespaces = ['--pid', '--net', '--fork', '--kill-child']
const inside = 'ip link set lo up && mount -t proc proc "$0/proc" && exec "$@"'
const variables = { NTH_ADMIN_KEY: ADMIN_KEY }
const started = commandIn(image, [...entrypoint, ...command], variables)
const child = spawn('unshare', [...namespaces, 'sh', '-c', inside, root, ...started], {
  stdio: ['ignore', 'pipe', 'inherit'],
})
const exited = once(child, 'exit')
let output = ''
child.stdout.on('data', (text) => {
  output += text
})
try {
  while (!output.includes('Nth is running')) {
    if (child.exitCode !== null) throw new Error(`The container ended: ${output}`)
    await pause(100)
  }
  const pid = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim()

  exec(pid, ...image.health)
  const { services } = parse(readFileSync(join(context, 'deploy/compose.yaml'), 'utf8'))
  exec(pid, ...services.nth.healthcheck.test.slice(1))
  const body = JSON.stringify({ query: 'mutation { increment(name: "hello") { value } }' })
  const count = `
    const headers = { 'content-type': 'application/json', authorization: 'Bearer ' + process.argv[1] }
    const request = { method: 'POST', headers, body: process.argv[2] }
    fetch('http://127.0.0.1:${port}/graphql', request).then((response) => response.text()).then(console.log)`
  const key = exec(pid, 'nth', 'keys', 'create', '--label', 'check', '--allow', 'ADD').trim()
  for (const [secret, expected] of [
    [ADMIN_KEY, '{"data":{"increment":{"value":1}}}'],
    [key, '{"data":{"increment":{"value":2}}}'],
  ]) {
    const answer = exec(pid, 'node', '-e', count, secret, body).trim()
    if (answer !== expected) throw new Error(`Answered: ${answer}`)
  }
  const { entrypoint, command } = services.backup
  exec(pid, ...entrypoint, command[0].replace('sleep 86400', 'exit'))
  process.kill(Number(pid), 'SIGTERM')
  const [code] = await exited
  if (code !== 0) throw new Error(`The container ended with ${code}: ${output}`)
} finally {
  child.kill('SIGKILL')
}

/** As `docker exec`. */
function exec(pid, ...words) {
  const [first, ...others] = commandIn(image, words, variables)
  return execFileSync('nsenter', ['--target', pid, '--net', '--pid', first, ...others], { encoding: 'utf8' })
}
