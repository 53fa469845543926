import { spawnSync } from 'node:child_process'

/** Starts a program with mounts of its own: as root, or as a user who may seem to be. Undefined: this user may not mount. */
export const OWN_MOUNTS = [
  ['unshare', '--mount'],
  ['unshare', '--mount', '--map-root-user'],
].find(
  ([program = '', ...args]) =>
    spawnSync(program, [...args, 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0,
)
if (!OWN_MOUNTS) {
  if (process.env.CI) throw new Error('CI needs the right to mount a disk')
  console.log('The tests of a full disk are skipped: this user may not mount one.')
}
