import { readdirSync } from "node:fs";
import { join, relative } from "node:path";
import { defineConfig } from "vitest/config";
import LongestFirst from "./tools/repo/longest-first.ts";

// Tests start many hundreds of processes; what Node has compiled for one of them serves the next.
process.env["NODE_COMPILE_CACHE"] ??= join(import.meta.dirname, "node_modules/.cache/compiled");

const workspaces = ["libs", "apps", "tools"].flatMap((area) =>
  readdirSync(join(import.meta.dirname, area)).map((name) => ({ name, root: `${area}/${name}` })),
);
const isOfSomeProjects = process.argv.some((argument) => argument.startsWith("--project"));

const unitTests = "src/**/*.test.ts";
/** What these change or hear belongs to their whole process, and therefore each has one of its own. */
const ownProcess = [
  "apps/job-controller/src/adapters/gather-events.test.ts",
  "apps/job-controller/src/adapters/world.test.ts",
  "libs/controller/src/controller.test.ts",
  "libs/controller/src/reconciler.test.ts",
  "libs/tracing/src/telemetry.test.ts",
];

const ownFiles = (root: string): string[] =>
  ownProcess.filter((file) => file.startsWith(`${root}/`)).map((file) => relative(root, file));

/** Every workspace project is a test project of the same name; what they share stands here once. */
const projects = workspaces.map(({ name, root }) => ({
  extends: true as const,
  test: {
    name,
    root,
    include: ["test/**/*.test.ts", ...(isOfSomeProjects ? [unitTests] : ownFiles(root))],
  },
}));

/** In a run of all, unit tests of all projects share their processes: most of what each costs is to load its modules. */
const unit = {
  extends: true as const,
  test: {
    name: "unit",
    root: ".",
    isolate: false,
    include: workspaces.map(({ root }) => `${root}/${unitTests}`),
    exclude: ownProcess,
  },
};

export default defineConfig({
  test: {
    projects: isOfSomeProjects ? projects : [...projects, unit],
    // Real servers start in tests, on machines of two cores.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    teardownTimeout: 60_000,
    // One more than there are cores: a third of the time of most tests is spent waiting.
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    reporters: ["default", "./tools/repo/closing-line-reporter.ts"],
  },
});
