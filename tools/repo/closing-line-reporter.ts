import { relative } from "node:path";
import type { Reporter, SerializedError, TestModule } from "vitest/node";

type Count = { passed: number; failed: number; skipped: number };
type TimedFile = { file: string; durationMs: number };

const MAX_SLOW_FILES = 20;

/** Ends the run with its slowest files, then one plain line that scripts can read: `Tests: 12 passed, 0 failed, 1 skipped`. */
export default class ClosingLineReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly SerializedError[]): void {
    const counts = modules.map((module) => countTests(module, errors));
    const sum = (key: keyof Count): number => counts.reduce((total, count) => total + count[key], 0);
    const slowFiles = listSlowFiles(modules.map(timeFile));
    process.on("exit", () => {
      process.stdout.write(slowFiles.map((line) => `${line}\n`).join(""));
      process.stdout.write(`Tests: ${sum("passed")} passed, ${sum("failed")} failed, ${sum("skipped")} skipped\n`);
    });
  }
}

/** Lists the slowest files, the slowest first, one a line after a heading. Omits files that took less than half a millisecond. */
export function listSlowFiles(files: readonly TimedFile[]): string[] {
  const slowest = files
    .filter(({ durationMs }) => durationMs >= 0.5)
    .toSorted((a, b) => b.durationMs - a.durationMs || (a.file < b.file ? -1 : 1))
    .slice(0, MAX_SLOW_FILES);
  if (slowest.length === 0) return [];
  const width = Math.max(...slowest.map(({ durationMs }) => inSeconds(durationMs).length));
  return [
    `Slowest test files (${String(slowest.length)} of ${String(files.length)}):`,
    ...slowest.map(({ file, durationMs }) => `  ${inSeconds(durationMs).padStart(width)}  ${file}`),
  ];
}

function timeFile(module: TestModule): TimedFile {
  const { collectDuration, duration } = module.diagnostic();
  // Includes imports: a file of quick tests that loads half the repository is also slow.
  return { file: relative(process.cwd(), module.moduleId), durationMs: collectDuration + duration };
}

function inSeconds(durationMs: number): string {
  return `${(durationMs / 1000).toFixed(1)} s`;
}

function countTests(module: TestModule, errors: readonly SerializedError[]): Count {
  const count = { passed: 0, failed: 0, skipped: 0 };
  for (const test of module.children.allTests()) {
    const { state } = test.result();
    if (state !== "pending") count[state] += 1;
  }
  // A file that does not load, or that has an uncaught error, has failed even without a failed test.
  const isFailed = module.state() === "failed" || errors.some((error) => error["VITEST_TEST_PATH"] === module.moduleId);
  if (isFailed && count.failed === 0) count.failed = 1;
  return count;
}
