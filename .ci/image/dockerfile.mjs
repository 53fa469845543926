// Runs the instructions of a Dockerfile without a container runtime: each stage is this machine's own root, which must
// have what its base image has but for Node, under an overlay in memory that takes all changes. Needs root and a mount
// namespace of its own, with which all of it disappears.
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'

/** The instructions of a Dockerfile, without comments, each on one line. */
export function parse(text) {
  const lines = text.split('\n').filter((line) => !/^\s*#/.test(line) && line.trim() !== '')
  const joined = lines.join('\n').replaceAll(/\\\n/g, ' ')
  return joined.split('\n').map((line) => {
    const [, name, rest] = /^([A-Z]+)\s+(.+)$/.exec(line) ?? []
    if (!name) throw new Error(`Not an instruction: ${line}`)
    return { name, rest }
  })
}

/** Runs all instructions. Returns what the last stage says about running it, and where its root is. */
export function build({ dockerfile, context, directory, say }) {
  const stages = new Map()
  let stage
  const instructions = {
    FROM(rest) {
      const [, image, , name = String(stages.size)] = /^(\S+)( AS (\S+))?$/i.exec(rest) ?? []
      const node = nodeOf(image)
      stage = { root: overlay(join(directory, name)), environment: {}, workdir: '/' }
      copyFileSync(node, join(stage.root, 'usr/local/bin/node'))
      stages.set(name, stage)
    },
    RUN: (rest) => execute(stage, ['/bin/sh', '-c', rest]),
    COPY(rest) {
      const [, , from, paths] = /^(--from=(\S+) )?(.+)$/.exec(rest) ?? []
      const words = paths.split(' ')
      const target = resolve('/', stage.workdir, words.pop() ?? '')
      for (const source of words) copy(from, source, join(stage.root, target), words.length > 1)
    },
    ENV(rest) {
      for (const [, name, value] of rest.matchAll(/(\w+)=(\S+)/g))
        stage.environment[name] = value.replace(/\$(\w+)/g, (_, other) => environmentOf(stage)[other])
    },
    USER: (rest) => Object.assign(stage, { user: rest }),
    WORKDIR(rest) {
      stage.workdir = rest
      mkdirSync(join(stage.root, rest), { recursive: true })
    },
    VOLUME: (rest) => Object.assign(stage, { volume: rest }),
    EXPOSE: (rest) => Object.assign(stage, { port: Number(rest) }),
    HEALTHCHECK: (rest) => Object.assign(stage, { health: JSON.parse(rest.replace(/^.* CMD /, '')) }),
    ENTRYPOINT: (rest) => Object.assign(stage, { entrypoint: JSON.parse(rest) }),
    CMD: (rest) => Object.assign(stage, { command: JSON.parse(rest) }),
  }

  function copy(from, source, target, intoFolder) {
    if (from) return execFileSync('cp', ['-r', join(stages.get(from).root, source), target])
    if (source !== '.')
      return execFileSync('cp', ['-r', join(context, source), intoFolder ? `${target}/` : target])
    const ignored = readFileSync(`${dockerfile}.dockerignore`, 'utf8').trim().split('\n')
    const excluded = ignored.map(
      (path) => `--exclude=${path.replace(/^(\*\*\/)?/, (any) => (any ? '' : './'))}`,
    )
    const archive = execFileSync('tar', ['-C', context, ...excluded, '-cf', '-', '.'], { maxBuffer: 2 ** 30 })
    execFileSync('tar', ['-C', target, '-xf', '-'], { input: archive })
  }

  for (const { name, rest } of parse(readFileSync(dockerfile, 'utf8'))) {
    const run = instructions[name]
    if (!run) throw new Error(`Unknown instruction ${name}`)
    say(`${name} ${rest}`)
    run(rest)
  }
  return stage
}

/** The command that runs words in a stage, as `docker exec` would. */
export function commandIn(stage, words, variables = {}) {
  const { root, user, workdir } = stage
  const [uid, gid] = user?.split(':') ?? []
  const identity = user
    ? [
        'setpriv',
        `--reuid=${uid}`,
        `--regid=${gid}`,
        '--clear-groups',
        '--no-new-privs',
        '--bounding-set=-all',
      ]
    : []
  const environment = Object.entries({ ...environmentOf(stage), ...variables }).map((pair) => pair.join('='))
  const inside = ['sh', '-c', 'cd "$0" && exec "$@"', workdir, 'env', '-i', ...environment, ...words]
  return ['chroot', root, ...identity, ...inside]
}

function environmentOf({ environment }) {
  return {
    PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    HOME: '/root',
    ...environment,
  }
}

function execute(stage, words) {
  const [command, ...others] = commandIn(stage, words, { DEBIAN_FRONTEND: 'noninteractive' })
  execFileSync(command, others, { stdio: ['ignore', 'ignore', 'inherit'] })
}

/** The program of Node that an image has. The rest of the image is this machine's, which must have the same Debian. */
function nodeOf(image) {
  const [, version, debian] = /^node:(\d+)-(\w+)-slim$/.exec(image) ?? []
  if (!readFileSync('/etc/os-release', 'utf8').includes(`VERSION_CODENAME=${debian}\n`))
    throw new Error(`${image} is another Debian than this machine`)
  const words = ['--yes', '--package', `node@${version}`, 'node', '--print', 'process.execPath']
  return execFileSync('npx', words, { encoding: 'utf8' }).trim()
}

/** This machine's root, changes to which stay in memory. */
function overlay(directory) {
  const [upper, work, root] = ['upper', 'work', 'root'].map((name) => join(directory, name))
  for (const path of [upper, work, root]) mkdirSync(path, { recursive: true })
  const mount = (...args) => execFileSync('mount', args)
  mount('-t', 'overlay', '-o', `lowerdir=/,upperdir=${upper},workdir=${work}`, 'overlay', root)
  mount('-t', 'proc', 'proc', join(root, 'proc'))
  mount('--rbind', '/dev', join(root, 'dev'))
  mount('-t', 'tmpfs', '-o', 'mode=1777', 'tmpfs', join(root, 'tmp'))
  // Which the base image doesn't have.
  rmSync(join(root, 'app'), { recursive: true, force: true })
  return root
}
