import { readdirSync } from "node:fs";
import { defineConfig } from "vitest/config";

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
