/**
 * Infers what every project would otherwise repeat. Targets, from what its folder holds: `typecheck`, `lint` and `test` for all, `build` for apps (one bundled file for
 * the container image), `generate` where there is a generate.ts, `bench` where there is a bench/main.ts. And what no import shows, from what its sources name:
 * projects whose programs it starts by their path, and folders of the root that it reads.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

const run = (command) => ({ executor: "nx:run-commands", options: { command, cwd: "{projectRoot}" } });

/** @param {string} root of the project @param {string} workspaceRoot */
function targetsOf(root, workspaceRoot) {
  const has = (name) => existsSync(join(workspaceRoot, root, name));
  return {
    // By its path: two packages bring a `tsc`, and which of them is linked under that name is nobody's promise.
    typecheck: run("node ../../node_modules/typescript-7/bin/tsc -p ."),
    lint: run("eslint . --max-warnings 0"),
    test: run("vitest run --root ../.. --project {projectName} --passWithNoTests"),
    ...(has("generate.ts") && { generate: run("node generate.ts") }),
    ...(has("bench/main.ts") && { bench: run("node bench/main.ts") }),
    ...(root.startsWith("apps/") && has("src/main.ts") && { build: run("node ../../tools/repo/bundle.ts") }),
  };
}

/** Of the root, beside the projects and what `nx.json` names for all. */
const ROOT_ENTRIES = [
  ".ci",
  "*.md",
  "deploy",
  "docs",
  "docker-compose.yml",
  "examples",
  "package.json",
  "proto",
  "schemas",
];
const OWN_PROJECT = "tools/repo";
/** `../../devcluster/src/main.ts`, `${APPS}cli/src/main.ts`, `apps/cli/src/main.ts` */
const PROGRAM = /(?:\/|\})([a-z-]+)\/(?:src\/main\.ts|bin\/)/g;
/** `${APPS}${app}/src/main.ts`, `join(APPS, app, "src/main.ts")`: the name of the app is in a variable. */
const ANY_PROGRAM = /\$\{\w+\}\/src\/main\.ts|\bAPPS, \w+,/;

/**
 * What the sources of a project use of the workspace without importing it. Where a program is named by a variable, every app counts whose name the sources have as a string.
 * @param {readonly string[]} texts sources of one project @param {string} own its name @param {readonly string[]} projects @param {readonly string[]} apps
 */
export function usedBy(texts, own, projects, apps) {
  const all = texts.join("\n").replaceAll(/^\s*(?:\/\/|\*|\/\*).*$/gm, "");
  const started = [...all.matchAll(PROGRAM)].map(([, name]) => name).filter((name) => projects.includes(name));
  const named = ANY_PROGRAM.test(all) ? apps.filter((name) => new RegExp(`["'\`]${name}["'\`]`).test(all)) : [];
  return {
    projects: [...new Set([...started, ...named])].filter((name) => name !== own).sort(),
    entries: ROOT_ENTRIES.filter((name) => new RegExp(`(?<!@muster)["'\`/]${RegExp.escape(name)}["'\`/ ]`).test(all)),
  };
}

/** @param {string} folder */
function sourcesIn(folder) {
  return readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith(".ts") && !/^(?:dist|generated|node_modules)\//.test(name))
    .map((name) => readFileSync(join(folder, name), "utf8"));
}

/** @param {string} root of the project @param {readonly string[]} roots of all projects @param {string} workspaceRoot */
function projectAt(root, roots, workspaceRoot) {
  const nameOf = (path) => path.split("/")[1];
  const names = roots.map(nameOf);
  const apps = roots.filter((path) => path.startsWith("apps/")).map(nameOf);
  const used = usedBy(sourcesIn(join(workspaceRoot, root)), nameOf(root), names, apps);
  const inputs = used.entries.map((name) => `{workspaceRoot}/${name}${/.\./.test(name) ? "" : "/**/*"}`);
  // The tests of the repository read the sources and tests of all projects.
  if (root === OWN_PROJECT) inputs.push(...roots.map((path) => `{workspaceRoot}/${path}/**/*`));
  return {
    targets: targetsOf(root, workspaceRoot),
    implicitDependencies: used.projects,
    namedInputs: { default: ["{projectRoot}/**/*", ...inputs, "workspace"] },
  };
}

export const createNodesV2 = [
  "{apps,libs,tools}/*/package.json",
  (files, _options, { workspaceRoot }) => {
    const roots = files.map((file) => dirname(file));
    return files.map((file) => [
      file,
      { projects: { [dirname(file)]: projectAt(dirname(file), roots, workspaceRoot) } },
    ]);
  },
];
