// A hook for `node --require`: a program that is started from its source runs its bundle from bundle-programs.mjs instead, where Node supports module hooks.
const { existsSync } = require("node:fs");
const { registerHooks } = require("node:module");
const { join } = require("node:path");
const { pathToFileURL } = require("node:url");

const root = pathToFileURL(join(__dirname, "../..")).href;
const bundles = join(__dirname, "../../node_modules/.cache/programs");

// Other processes, such as the test runner, load their modules as usual.
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
