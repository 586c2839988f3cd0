/**
 * Infers the configuration of every project. Targets come from its files: `typecheck`, `lint` and `test` for all, `build` for apps (one bundled file for the
 * container image; static files with a vite.config.ts), `generate` with a generate.ts, `bench` with a bench/main.ts. Dependencies without an import come from its sources: projects whose programs
 * it starts by path, and folders of the root that it reads.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

const run = (command) => ({ executor: "nx:run-commands", options: { command, cwd: "{projectRoot}" } });

/** @param {string} root of the project @param {string} workspaceRoot */
function targetsOf(root, workspaceRoot) {
  const has = (name) => existsSync(join(workspaceRoot, root, name));
  return {
    // Uses the path, because two packages have a `tsc`, and npm may link either.
    typecheck: run("node ../../node_modules/typescript-7/bin/tsc -p ."),
    lint: run("eslint . --max-warnings 0"),
    test: run("vitest run --root ../.. --project {projectName} --passWithNoTests"),
    ...(has("generate.ts") && { generate: run("node generate.ts") }),
    ...(has("bench/main.ts") && { bench: run("node bench/main.ts") }),
    ...(root.startsWith("apps/") && has("src/main.ts") && { build: run("node ../../tools/repo/bundle.ts") }),
    ...(has("vite.config.ts") && { build: run("vite build") }),
  };
}

/** Entries of the root that sources may read, except projects and the common inputs of `nx.json`. */
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
 * The projects and root entries that the sources of a project use without an import. Where a variable names the program, every app counts whose name is a
 * string in the sources.
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
    .filter((name) => /\.tsx?$/.test(name) && !/^(?:dist|generated|node_modules)\//.test(name))
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
