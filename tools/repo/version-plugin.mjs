import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const PACKAGE = join(dirname(fileURLToPath(import.meta.url)), "../../package.json");

/** The version of this Muster: all parts report it. */
export const VERSION = JSON.parse(readFileSync(PACKAGE, "utf8")).version;

/**
 * A plugin of esbuild: bundles have the version of package.json of the root and nothing else of it. A pre-release gives its own version.
 * @param {string} version @returns {import("esbuild").Plugin}
 */
export function versionPlugin(version = VERSION) {
  return {
    name: "version",
    setup: (build) =>
      build.onLoad({ filter: /[\\/]package\.json$/ }, ({ path }) =>
        path === PACKAGE ? { contents: JSON.stringify({ version }), loader: "json" } : undefined,
      ),
  };
}
