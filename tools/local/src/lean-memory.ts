/**
 * Limits the memory of a service; the Dockerfile sets the same for the images. The C library uses one arena and returns free memory above 128 KiB. A service
 * may release the memory of its start, and young objects take at most 16 MiB of a busy one.
 */
export const LEAN_MEMORY = {
  MALLOC_ARENA_MAX: "1",
  MALLOC_TRIM_THRESHOLD_: "131072",
  NODE_OPTIONS: "--expose-gc --max-semi-space-size=8",
};

/** Returns the environment of a service: that of this process, with the variables that limit its memory. */
export function withLeanMemory<Env extends Readonly<Record<string, string | undefined>>>(env: Env) {
  const options = [LEAN_MEMORY.NODE_OPTIONS, env["NODE_OPTIONS"] ?? ""].join(" ").trim();
  return { ...LEAN_MEMORY, ...env, NODE_OPTIONS: options };
}
