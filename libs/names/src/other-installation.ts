/**
 * Which installation has made what carries the id `found`, where that is another one than `own`. What carries none is from before installations had ids, and
 * is taken for one's own.
 */
export function otherInstallation(found: string | undefined, own: string): string | undefined {
  return found === undefined || found === "" || found === own ? undefined : found;
}
