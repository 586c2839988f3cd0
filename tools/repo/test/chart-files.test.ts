import { readdir, realpath } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "../../..");
const FILES = join(ROOT, "deploy/helm/muster/files");

it("links the shared files of the chart instead of copying them", async () => {
  const root = await realpath(ROOT);
  const leadsTo = await Promise.all(
    (await readdir(FILES)).sort().map(async (name) => [name, (await realpath(join(FILES, name))).slice(root.length)]),
  );
  expect(leadsTo).toEqual([
    ["crds", "/deploy/crds"],
    ["keys.ts", "/tools/repo/install-keys.ts"],
    ["nats", "/deploy/nats"],
    ["prometheus", "/deploy/prometheus"],
    ["rights", "/deploy/kubernetes"],
  ]);
});
