import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome']

/** @returns {string | undefined} the path of this machine's Chromium */
export function findChromium() {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/bin']
  return folders.flatMap((folder) => NAMES.map((name) => join(folder, name))).find(isExecutable)
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
