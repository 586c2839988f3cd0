/** Oldest version that has everything we use: time limits per message, marks for entries that time out. */
export const OLDEST_VERSION = "2.11.0";

/** Parses `nats-server: v2.15.2` to 2.15.2; undefined if the text has no version. */
export function parseVersion(text: string): string | undefined {
  return /\bv(\d+\.\d+\.\d+\S*)/.exec(text)?.[1];
}

export function isNewEnough(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [oldestMajor = 0, oldestMinor = 0] = OLDEST_VERSION.split(".").map(Number);
  return major > oldestMajor || (major === oldestMajor && minor >= oldestMinor);
}
