import type { Reporter, SerializedError, TestModule } from "vitest/node";

type Count = { passed: number; failed: number; skipped: number };

/** Ends the run with one plain line that scripts can read: `Tests: 12 passed, 0 failed, 1 skipped`. */
export default class ClosingLineReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly SerializedError[]): void {
    const counts = modules.map((module) => countOf(module, errors));
    const sum = (key: keyof Count): number => counts.reduce((total, count) => total + count[key], 0);
    process.on("exit", () => {
      process.stdout.write(`Tests: ${sum("passed")} passed, ${sum("failed")} failed, ${sum("skipped")} skipped\n`);
    });
  }
}

function countOf(module: TestModule, errors: readonly SerializedError[]): Count {
  const count = { passed: 0, failed: 0, skipped: 0 };
  for (const test of module.children.allTests()) {
    const { state } = test.result();
    if (state !== "pending") count[state] += 1;
  }
  // A file that does not load, or that leaves an error behind which no test caught, may have no failed test, and still has failed.
  const isFailed = module.state() === "failed" || errors.some((error) => error["VITEST_TEST_PATH"] === module.moduleId);
  if (isFailed && count.failed === 0) count.failed = 1;
  return count;
}
