/** Bundles the app in the current folder into dist/main.js: one file, its dependencies inside. */
import { join, resolve } from "node:path";
import { build } from "esbuild";

const ROOT = join(import.meta.dirname, "../..");

/**
 * Bundles a program into one file; resolves with the files that are in it, as paths from the root of the repository. The same sources give the same bytes,
 * wherever the repository lies.
 */
export async function bundle(options: {
  readonly entry: string;
  readonly outfile: string;
  readonly sourcemap: boolean;
}): Promise<readonly string[]> {
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: [options.entry],
    outfile: options.outfile,
    bundle: true,
    metafile: true,
    platform: "node",
    target: "node24",
    format: "esm",
    sourcemap: options.sourcemap,
    legalComments: "linked",
    // Packages in CommonJS call require, which ES modules do not have.
    banner: {
      js: 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);',
    },
    logLevel: "warning",
  });
  return Object.keys(metafile.inputs).sort();
}

if (import.meta.main)
  await bundle({ entry: resolve("src/main.ts"), outfile: resolve("dist/main.js"), sourcemap: true });
