/**
 * What every process that a test starts gets from this one: where programs are, where Node keeps what it has compiled, and what it loads first, which in a
 * run of all tests makes programs start from their bundles. The rest of the environment stays out, so that no test hangs on the machine it runs on.
 */
export function processEnv(): Readonly<Record<"PATH" | "NODE_COMPILE_CACHE" | "NODE_OPTIONS", string | undefined>> {
  const { PATH, NODE_COMPILE_CACHE, NODE_OPTIONS } = process.env;
  return { PATH, NODE_COMPILE_CACHE, NODE_OPTIONS };
}
