import { readFileSync, writeFileSync } from "node:fs";
import type { Reporter, SerializedError, TestModule } from "vitest/node";

type Count = { passed: number; failed: number; skipped: number };

/**
 * Ends the run with one plain line that scripts can read: `Tests: 12 passed, 0 failed, 1 skipped`. Where a report is named, the counts of each test file are
 * kept in it, and a later run of some of the files replaces what they had: the line is then about all of them.
 */
export default class ClosingLineReporter implements Reporter {
  readonly #report: string | undefined;

  constructor(options: { readonly report?: string | undefined } = {}) {
    this.#report = options.report;
  }

  onTestRunEnd(modules: readonly TestModule[], errors: readonly SerializedError[]): void {
    const counts = readReport(this.#report);
    for (const module of modules) counts[module.moduleId] = countOf(module, errors);
    if (this.#report !== undefined) writeFileSync(this.#report, JSON.stringify(counts));
    const sum = (key: keyof Count): number => Object.values(counts).reduce((total, count) => total + count[key], 0);
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

/** Nothing where there is none yet. */
function readReport(file: string | undefined): Record<string, Count> {
  if (file === undefined) return {};
  try {
    // Written by this reporter alone.
    return JSON.parse(readFileSync(file, "utf8")) as Record<string, Count>;
  } catch {
    return {};
  }
}
