import { readdirSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitest/config";

// Tests start many hundreds of processes; what Node has compiled for one of them serves the next.
process.env["NODE_COMPILE_CACHE"] ??= join(import.meta.dirname, "node_modules/.cache/compiled");

/** Every workspace project is a test project of the same name; what they share stands here once. */
const projects = ["libs", "apps", "tools"].flatMap((area) =>
  readdirSync(area).map((name) => ({
    extends: true as const,
    test: { name, root: `${area}/${name}` },
  })),
);

export default defineConfig({
  test: {
    projects,
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    // Real servers start in tests, on machines of two cores.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    teardownTimeout: 20_000,
    maxWorkers: 2,
    reporters: ["default", ["./tools/repo/closing-line-reporter.ts", { report: process.env["MUSTER_TEST_REPORT"] }]],
  },
});
