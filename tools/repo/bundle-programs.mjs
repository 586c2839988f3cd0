/**
 * Bundles every program, its dependencies inside, for a run of all tests: those start many hundreds of processes, and one that starts from its bundle takes a third of
 * the processor time of one that loads some thousand modules. `run-bundled.cjs` makes a process start from it.
 */
import { globSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";

const root = join(import.meta.dirname, "../..");
const outdir = join(root, "node_modules/.cache/programs");

/** A module that asks where it stands is told where its source does: what it reads is beside that. */
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

rmSync(outdir, { recursive: true, force: true });
await build({
  entryPoints: globSync("{apps,libs,tools}/*/src/main.ts", { cwd: root }),
  absWorkingDir: root,
  outbase: root,
  outdir,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  // Programs share most of what they consist of, and so what is compiled of it.
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
});
