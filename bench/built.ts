/** The project, whose service is measured as it was built. */
export const ROOT = new URL('../', import.meta.url)

/** Imports a file of `dist`, with the types of the source that it was built from. */
export function built<Module>(path: string): Promise<Module> {
  return import(new URL(`dist/${path}`, ROOT).href)
}
