// The test files that failed, a line each, from the report that closing-line-reporter.ts kept. Ends with 1, and says why, where there are none or too many to be
// bad luck: a change that breaks something breaks more than a few files, or breaks them again.
import { readFileSync } from "node:fs";

const MOST = 4;

const report = JSON.parse(readFileSync(process.env["MUSTER_TEST_REPORT"] ?? "", "utf8"));
const failed = Object.keys(report).filter((file) => report[file].failed > 0);
if (failed.length === 0 || failed.length > MOST) {
  console.error(`${failed.length} test files failed; run once more are 1 to ${MOST}`);
  process.exit(1);
}
console.log(failed.join("\n"));
