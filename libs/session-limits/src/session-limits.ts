/** Bounds that keep a session within one stored value and a pod within what a kernel accepts. */
export const SESSION_LIMITS = {
  /** Replicas counted. */
  components: 200,
  /** One environment string may have 128 KiB on Linux, and the scenario travels as one. */
  scenarioBytes: 96 * 1024,
  /** What `sessionTextBytes` counts. */
  textBytes: 128 * 1024,
  timeoutMs: { min: 1000, max: 7 * 24 * 3_600_000 },
  queueTimeoutMs: { min: 1000, max: 30 * 24 * 3_600_000 },
  ttlMs: { min: 1000, max: 30 * 24 * 3_600_000 },
  killAfterMs: { min: 1000, max: 600_000 },
  requestIdLength: 128,
} as const;

/** A pod is named `<session>-<component>`, and its name is a DNS label. */
export const POD_NAME_LENGTH_MAX = 63;

/** What an entry costs in the record beside its text, so that very many empty ones are not free. */
const ENTRY_BYTES = 8;

/** The texts of a component that count. */
export type SizedComponent = {
  readonly image: string;
  readonly workingDir?: string | undefined;
  readonly command: readonly string[];
  readonly args: readonly string[];
  readonly env: readonly { readonly name: string; readonly value: string }[];
};

/** Bytes of images, directories, commands, arguments and environment of all components together, with what each entry costs beside its text. */
export function sessionTextBytes(components: readonly SizedComponent[]): number {
  let total = 0;
  for (const { image, workingDir = "", command, args, env } of components) {
    for (const text of [image, workingDir, ...command, ...args, ...env.flatMap(({ name, value }) => [name, value])]) {
      total += new TextEncoder().encode(text).length + ENTRY_BYTES;
    }
  }
  return total;
}
