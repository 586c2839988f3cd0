/** Bounds that keep a session within one stored value and a pod within the limits of a kernel. */
export const SESSION_LIMITS = {
  /** Replicas counted. */
  components: 200,
  /** Linux limits one environment string to 128 KiB, and the scenario is passed as one. */
  scenarioBytes: 96 * 1024,
  /** The maximum of `countSessionTextBytes`. */
  textBytes: 128 * 1024,
  timeoutMs: { min: 1000, max: 7 * 24 * 3_600_000 },
  queueTimeoutMs: { min: 1000, max: 30 * 24 * 3_600_000 },
  ttlMs: { min: 1000, max: 30 * 24 * 3_600_000 },
  killAfterMs: { min: 1000, max: 600_000 },
  requestIdLength: 128,
} as const;

/** The values of a session where neither its file nor the session controller's configuration names another one. */
export const SESSION_DEFAULTS = {
  timeoutMs: 15 * 60_000,
  queueTimeoutMs: 24 * 3_600_000,
  ttlMs: 24 * 3_600_000,
  killAfterMs: 10_000,
  workerPort: 10_000,
} as const;

/** A pod is named `<session>-<component>`, and its name is a DNS label. */
export const MAX_POD_NAME_LENGTH = 63;

/** The cost of an entry in the record beside its text, so that very many empty ones are not free. */
const ENTRY_BYTES = 8;

/** Texts of a component that count towards the size limit of a session. */
type SizedComponent = {
  readonly otherPools?: readonly string[];
  readonly image: string;
  readonly workingDir?: string | undefined;
  readonly command: readonly string[];
  readonly args: readonly string[];
  readonly env: readonly { readonly name: string; readonly value: string }[];
  readonly templateJson?: string | undefined;
};

/**
 * Bytes of further pools, images, directories, commands, arguments, environment and templates of all components together, with the cost of each entry beside
 * its text.
 */
export function countSessionTextBytes(components: readonly SizedComponent[]): number {
  let total = 0;
  for (const { otherPools = [], image, workingDir = "", command, args, env, templateJson = "" } of components) {
    const variables = env.flatMap(({ name, value }) => [name, value]);
    const program = [image, workingDir, ...command, ...args, ...variables];
    for (const text of [...otherPools, ...program, ...unlessEmpty(templateJson)]) {
      total += new TextEncoder().encode(text).length + ENTRY_BYTES;
    }
  }
  return total;
}

function unlessEmpty(text: string): readonly string[] {
  return text === "" ? [] : [text];
}
