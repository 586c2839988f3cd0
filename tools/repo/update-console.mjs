/** Builds apps/console when a source has changed. The gateway reads the files at its start. Plain JavaScript, as the list of sources is. */
import { existsSync } from "node:fs";
import { join, relative } from "node:path";
import { buildConsole } from "./build-console.ts";
import { isBundled, writeSources } from "./bundled.mjs";

const root = join(import.meta.dirname, "../..");
const app = "apps/console";
const dist = join(root, app, "dist");
/** The files that no module imports. */
const others = [
  ...["index.html", "public/icon.svg", "vite.config.ts"].map((name) => `${app}/${name}`),
  relative(root, import.meta.filename),
  "tools/repo/build-console.ts",
];

if (!existsSync(join(dist, "index.html")) || !isBundled(app)) {
  try {
    // Taken first, so that a source that changes during the build is newer than the build.
    const madeAtMs = Date.now();
    const files = await buildConsole(dist);
    writeSources(app, [...files.filter((file) => !file.startsWith("node_modules/")), ...others], madeAtMs);
  } catch (error) {
    // Everything else works without the console; the gateway then serves a page that states this.
    console.error("warning: the web console cannot be built:", error);
  }
}
