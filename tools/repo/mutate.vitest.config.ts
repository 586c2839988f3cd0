import { defineConfig } from "vitest/config";

const { MUSTER_MUTATION_PROJECT: root = "." } = process.env;

/** The unit tests of one project, in one process. */
export default defineConfig({
  test: {
    isolate: false,
    testTimeout: 60_000,
    include: [`${root}/src/**/*.test.ts`],
    // Tests of adapters wait for real clocks and sockets. The tests of `domain/` cover the decisions.
    exclude: ["apps/*/src/adapters/**"],
  },
});
