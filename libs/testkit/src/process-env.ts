/**
 * The environment of every process that a test starts: the path of programs, the compile cache of Node, and the module that Node loads first, which in a run of
 * all tests starts programs from their bundles. Omits everything else, so that no test depends on the machine.
 */
export function buildProcessEnv(): Readonly<
  Record<"PATH" | "NODE_COMPILE_CACHE" | "NODE_OPTIONS", string | undefined>
> {
  const { PATH, NODE_COMPILE_CACHE, NODE_OPTIONS } = process.env;
  return { PATH, NODE_COMPILE_CACHE, NODE_OPTIONS };
}
