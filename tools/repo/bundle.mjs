/** Bundles the app in the current folder into dist/main.js for its container image: one file, its dependencies inside. */
import { readFileSync } from "node:fs";
import { build } from "esbuild";

const { name } = JSON.parse(readFileSync("package.json", "utf8"));
await build({
  entryPoints: ["src/main.ts"],
  outfile: "dist/main.js",
  bundle: true,
  platform: "node",
  target: "node24",
  format: "esm",
  sourcemap: true,
  legalComments: "linked",
  // Packages in CommonJS call require, which ES modules do not have.
  banner: {
    js: 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);',
  },
  logLevel: "warning",
});
console.log(`${name}: dist/main.js`);
