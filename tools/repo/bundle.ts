/** Bundles the app in the current folder with its dependencies into dist/main.js. */
import { join, resolve } from "node:path";
import { build } from "esbuild";
import { versionPlugin } from "./version-plugin.mjs";

const ROOT = join(import.meta.dirname, "../..");

/** The ES module form of this package hides its `require` from bundlers, and its dependencies would be missing in an image. */
const REQUIRED = {
  "@opentelemetry/otlp-grpc-exporter-base": "./node_modules/@opentelemetry/otlp-grpc-exporter-base/dist/index.cjs",
};

/**
 * Bundles a program into `main.js` of a folder, and its dynamic imports into `chunks`, which cost no memory before they are used. Resolves with the bundled
 * files, as paths from the root of the repository. The same sources and version give the same bytes in any location of the repository.
 */
export async function bundle(options: {
  readonly entry: string;
  readonly outdir: string;
  readonly sourcemap: boolean;
  /** The version that the program reports; default: that of the repository. */
  readonly version?: string | undefined;
}): Promise<readonly string[]> {
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: [{ in: options.entry, out: "main" }],
    outdir: options.outdir,
    chunkNames: "chunks/[name]-[hash]",
    bundle: true,
    splitting: true,
    metafile: true,
    platform: "node",
    target: "node24",
    format: "esm",
    alias: REQUIRED,
    plugins: [versionPlugin(options.version)],
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

if (import.meta.main) await bundle({ entry: resolve("src/main.ts"), outdir: resolve("dist"), sourcemap: true });
