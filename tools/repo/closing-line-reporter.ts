import type { Reporter, TestModule } from "vitest/node";

/** Ends the run with one plain line that scripts can read: `Tests: 12 passed, 0 failed, 1 skipped`. */
export default class ClosingLineReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const count = { passed: 0, failed: 0, skipped: 0 };
    for (const module of modules) {
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state !== "pending") count[state] += 1;
      }
      // A file that does not load has no tests, and still has failed.
      if (module.state() === "failed" && module.errors().length > 0) count.failed += 1;
    }
    process.on("exit", () => {
      process.stdout.write(`Tests: ${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped\n`);
    });
  }
}
