/** The path of this machine's Chromium. */
export function findChromium(): string | undefined
