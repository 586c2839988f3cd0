import { BaseSequencer, type TestSpecification } from "vitest/node";

/** The slowest test files, slowest first: started last, one of them would run alone for minutes. Other files keep their order. */
const longest = [
  "tools/local/test/start.int.test.ts",
  "apps/job-controller/test/failures.int.test.ts",
  "apps/cli/test/cli.int.test.ts",
  "tools/local/test/bad-luck.int.test.ts",
  "tools/devcluster/test/conformance.int.test.ts",
  "tools/local/test/documents.int.test.ts",
  "tools/local/test/skew.int.test.ts",
  "tools/local/test/full-disk.int.test.ts",
  "tools/local/test/compose.int.test.ts",
  "apps/cli/test/final-faults.int.test.ts",
  "apps/cli/test/elastic.int.test.ts",
  "tools/chaos/test/chaos.int.test.ts",
  "tools/local/test/replica-sets.int.test.ts",
  "tools/local/test/elastic-clusters.int.test.ts",
  "tools/local/test/clustered.int.test.ts",
  "tools/local/test/example.int.test.ts",
  "tools/local/test/stack.int.test.ts",
  "tools/local/test/elastic.int.test.ts",
  "apps/session-controller/test/waiting.int.test.ts",
  "apps/node-scaler/test/service.int.test.ts",
  "apps/node-scaler/test/providers.int.test.ts",
  "apps/session-controller/test/stopped.int.test.ts",
  "apps/job-controller/test/kubectl.int.test.ts",
  "apps/replication-farm/test/failsafe.int.test.ts",
  "apps/watcher/test/watcher.int.test.ts",
  "tools/local/test/limited-scaler.int.test.ts",
  "apps/provision-engine/test/crashes.int.test.ts",
  "tools/local/test/elastic-sets.int.test.ts",
  "apps/replication-farm/test/lost-farms.int.test.ts",
];

/** Starts the slowest files first. */
export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = longest.findIndex((file) => moduleId.endsWith(`/${file}`));
      return at < 0 ? longest.length : at;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}
