/**
 * What every process that a test starts gets from this one: where programs are, and where Node keeps what it has compiled, which halves the time of a start. The rest of
 * the environment stays out, so that no test hangs on the machine it runs on.
 */
export function processEnv(): Readonly<Record<"PATH" | "NODE_COMPILE_CACHE", string | undefined>> {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  return { PATH, NODE_COMPILE_CACHE };
}
