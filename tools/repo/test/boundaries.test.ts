import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ESLint } from "eslint";
import { beforeAll, expect, it } from "vitest";

/**
 * A canary: the boundary rule silently checks nothing when no project graph is cached. Each planted file breaks one rule on purpose. If lint accepts it, the
 * rule is inactive, and earlier passes prove nothing.
 */
const root = join(dirname(fileURLToPath(import.meta.url)), "../../..");

beforeAll(() => {
  execFileSync(join(root, "node_modules/.bin/nx"), ["show", "projects"], { cwd: root, stdio: "pipe" });
});

it.each([
  {
    title: "an app that imports an app",
    file: "apps/watcher/src/planted-a.ts",
    text: 'import { main } from "../../cli/src/main.ts";\nmain();\n',
    rule: "@nx/enforce-module-boundaries",
  },
  {
    title: "a tool that imports an app though only the simulator may",
    file: "tools/chaos/src/planted-g.ts",
    text: 'import { planGrants } from "@muster/reservation-manager/plan-grants";\nvoid planGrants;\n',
    rule: "@nx/enforce-module-boundaries",
  },
  {
    title: "an app that imports the simulator",
    file: "apps/watcher/src/planted-h.ts",
    text: 'import { simulate } from "../../../tools/simulate/src/simulate.ts";\nvoid simulate;\n',
    rule: "@nx/enforce-module-boundaries",
  },
  {
    title: "a core library that imports a platform library",
    file: "libs/faults/src/planted-b.ts",
    text: 'import { connectNats } from "@muster/bus";\nvoid connectNats;\n',
    rule: "@nx/enforce-module-boundaries",
  },
  {
    title: "a contract that imports a package which is not for contracts",
    file: "libs/proto/src/planted-c.ts",
    text: 'import { trace } from "@opentelemetry/api";\nvoid trace;\n',
    rule: "@nx/enforce-module-boundaries",
  },
  {
    title: "a decision that reaches for an adapter",
    file: "apps/watcher/src/domain/planted-d.ts",
    text: 'import { deps } from "../adapters/deps.ts";\nvoid deps;\n',
    rule: "no-restricted-imports",
  },
  {
    title: "a file of a service that opens an adapter by itself",
    file: "apps/watcher/src/planted-o.ts",
    text: 'import { openWatcher } from "./adapters/deps.ts";\nvoid openWatcher;\n',
    rule: "@typescript-eslint/no-restricted-imports",
  },
  {
    title: "an adapter that imports what starts the service",
    file: "apps/node-scaler/src/adapters/planted-p.ts",
    text: 'import { run } from "../service.ts";\nvoid run;\n',
    rule: "no-restricted-imports",
  },
  {
    title: "the ledger that imports a decision",
    file: "apps/reservation-manager/src/domain/ledger/planted-i.ts",
    text: 'import { planGrants } from "../decisions/plan-grants.ts";\nvoid planGrants;\n',
    rule: "no-restricted-imports",
  },
  {
    title: "a part of the members of jobs that imports an adapter",
    file: "apps/job-controller/src/members/planted-j.ts",
    text: 'import { runWhileLeading } from "../adapters/lead-check.ts";\nvoid runWhileLeading;\n',
    rule: "no-restricted-imports",
  },
  {
    title: "a decision that reads the clock",
    file: "apps/watcher/src/domain/planted-e.ts",
    text: "export const nowMs = Date.now();\n",
    rule: "no-restricted-properties",
  },
  {
    title: "a folder of an app that imports an adapter",
    file: "apps/provision-engine/src/lead/planted-i.ts",
    text: 'import type { Deps } from "../adapters/deps.ts";\nexport type Planted = Deps;\n',
    rule: "no-restricted-imports",
  },
  {
    title: "the work of the leader that imports what takes orders",
    file: "apps/provision-engine/src/lead/planted-m.ts",
    text: 'import type { RequestDeps } from "../orders/requests.ts";\nexport type Planted = RequestDeps;\n',
    rule: "no-restricted-imports",
  },
  {
    title: "what a replica knows of leases that imports the work of the leader",
    file: "apps/provision-engine/src/holdings/planted-n.ts",
    text: 'import type { PassDeps } from "../lead/pass.ts";\nexport type Planted = PassDeps;\n',
    rule: "no-restricted-imports",
  },
  {
    title: "an adapter that imports the program",
    file: "apps/provision-engine/src/adapters/planted-j.ts",
    text: 'import "../main.ts";\n',
    rule: "no-restricted-imports",
  },
  {
    title: "a type of workload that imports the folder that calls it",
    file: "apps/provision-engine/src/types/planted-k.ts",
    text: 'import type { PassDeps } from "../lead/pass.ts";\nexport type Planted = PassDeps;\n',
    rule: "no-restricted-imports",
  },
  {
    title: "a type of workload that calls the cluster by itself",
    file: "apps/provision-engine/src/types/planted-l.ts",
    text: 'import { kubeCalls } from "@muster/kube";\nvoid kubeCalls;\n',
    rule: "@typescript-eslint/no-restricted-imports",
  },
  {
    title: "a product file that uses the test kit",
    file: "apps/watcher/src/planted-f.ts",
    text: 'import { natsServer } from "@muster/testkit";\nvoid natsServer;\n',
    rule: "no-restricted-imports",
  },
])("lint refuses $title", async ({ file, text, rule }) => {
  const path = join(root, file);
  try {
    writeFileSync(path, text);
    const [result] = await new ESLint({ cwd: root }).lintFiles([file]);
    expect(result?.messages.map(({ ruleId }) => ruleId)).toContain(rule);
  } finally {
    rmSync(path, { force: true });
  }
});
