// For `node --require`: whoever starts a program of the repository from its source gets the bundle that bundle-programs.mjs has made of it, on a Node that can do that.
const { existsSync } = require("node:fs");
const { registerHooks } = require("node:module");
const { join } = require("node:path");
const { pathToFileURL } = require("node:url");

const root = pathToFileURL(join(__dirname, "../..")).href;
const bundles = join(__dirname, "../../node_modules/.cache/programs");

// Every other process, as those of the tests themselves, loads its modules as ever.
if (/\/src\/main\.ts$/.test(process.argv[1] ?? "")) {
  registerHooks?.({
    resolve: (specifier, context, next) => {
      const found = next(specifier, context);
      if (!found.url.startsWith(root) || !found.url.endsWith("/src/main.ts")) return found;
      const bundle = join(bundles, `${found.url.slice(root.length, -".ts".length)}.mjs`);
      return existsSync(bundle) ? { url: pathToFileURL(bundle).href, format: "module", shortCircuit: true } : found;
    },
  });
}
