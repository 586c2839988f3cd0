/**
 * Infers the targets of every project from what its folder holds, so that no project repeats them: `typecheck`, `lint` and `test` for all,
 * `build` for apps (one bundled file for the container image), `generate` where there is a generate.ts, `bench` where there is a bench/.
 */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";

const run = (command) => ({ executor: "nx:run-commands", options: { command, cwd: "{projectRoot}" } });

/** @param {string} file @param {string} workspaceRoot */
function targetsOf(file, workspaceRoot) {
  const root = dirname(file);
  const has = (name) => existsSync(join(workspaceRoot, root, name));
  return {
    // By its path: two packages bring a `tsc`, and which of them is linked under that name is nobody's promise.
    typecheck: run("node ../../node_modules/typescript-7/bin/tsc -p ."),
    lint: run("eslint . --max-warnings 0"),
    test: run("vitest run --root ../.. --project {projectName} --passWithNoTests"),
    ...(has("generate.ts") && { generate: run("node generate.ts") }),
    ...(has("bench") && { bench: run("node bench/main.ts") }),
    ...(root.startsWith("apps/") && has("src/main.ts") && { build: run("node ../../tools/repo/bundle.ts") }),
  };
}

export const createNodesV2 = [
  "{apps,libs,tools}/*/package.json",
  (files, _options, context) =>
    files.map((file) => [file, { projects: { [dirname(file)]: { targets: targetsOf(file, context.workspaceRoot) } } }]),
];
