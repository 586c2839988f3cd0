/**
 * Bundles every program with its dependencies when a source has changed. A bundled process starts with a third of the processor time of one that loads some
 * thousand modules. `run-bundled.cjs` starts processes from the bundles.
 */
import { globSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { BUNDLES, isBundled, writeSources } from "./bundled.mjs";

const root = join(import.meta.dirname, "../..");
const programs = globSync("{apps,libs,tools}/*/src/main.ts", { cwd: root }).sort();

/** Replaces `import.meta.url` and `dirname` by those of the source, because modules read files beside their source. */
const ownPlaces = {
  name: "own places",
  setup: ({ onLoad }) => {
    onLoad({ filter: /\/(apps|libs|tools)\/[^/]+\/src\/.*\.ts$/ }, async ({ path }) => {
      const source = await readFile(path, "utf8");
      const contents = source
        .replaceAll("import.meta.url", JSON.stringify(pathToFileURL(path).href))
        .replaceAll("import.meta.dirname", JSON.stringify(dirname(path)));
      return { contents, loader: "ts" };
    });
  },
};

if (!programs.every((program) => isBundled(program))) await bundle();

async function bundle() {
  // Taken first, so that a source that changes during the bundling is newer than the bundle.
  const madeAtMs = Date.now();
  rmSync(BUNDLES, { recursive: true, force: true });
  const { metafile } = await build({
    entryPoints: programs,
    absWorkingDir: root,
    outbase: root,
    outdir: BUNDLES,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    // Programs share most modules, and so their compiled code.
    splitting: true,
    platform: "node",
    target: "node24",
    format: "esm",
    legalComments: "none",
    plugins: [ownPlaces],
    // Packages in CommonJS call require, which ES modules do not have.
    banner: {
      js: 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);',
    },
    logLevel: "warning",
    metafile: true,
  });
  for (const program of programs) writeSources(program, [...sourcesOf(program, metafile)], madeAtMs);
}

/**
 * The source files of a program in the repository, including dynamic imports.
 * @param {string} program @param {import("esbuild").Metafile} metafile
 */
function sourcesOf(program, { inputs }) {
  const sources = new Set([relative(root, import.meta.filename), program]);
  for (const source of sources)
    for (const { path } of inputs[source]?.imports ?? [])
      if (path in inputs && !path.startsWith("node_modules/")) sources.add(path);
  return sources;
}
