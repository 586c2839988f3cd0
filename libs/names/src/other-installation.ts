/**
 * The installation that made an object with the id `found`, if it is not `own`. An object without an id is older than installation ids, and counts as our own.
 */
export function findOtherInstallation(found: string | undefined, own: string): string | undefined {
  return found === undefined || found === "" || found === own ? undefined : found;
}
