import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { PROVIDER_KINDS } from "../src/adapters/providers.ts";
import { readPoolsFile } from "../src/read-pools-file.ts";

const ROOT = join(import.meta.dirname, "../../..");
const PROVIDERS = "apps/node-scaler/src/providers";
const kinds = (await readdir(join(ROOT, PROVIDERS), { withFileTypes: true })).filter((entry) => entry.isDirectory());
const PAGES = [
  "apps/node-scaler/README.md",
  "docs/elastic-pools.md",
  ...kinds.map(({ name }) => `${PROVIDERS}/${name}/README.md`),
];

/** Returns the complete files of pools on a page. */
async function examplesOf(page: string): Promise<string[]> {
  const text = await readFile(join(ROOT, page), "utf8");
  const blocks = [...text.matchAll(/^```yaml\n([^]*?)^```$/gm)].map(([, block = ""]) => block);
  return blocks.filter((block) => /^pools:/m.test(block));
}

it.each(PAGES)("accepts every file of pools in %s", async (page) => {
  const examples = await examplesOf(page);
  expect(examples).not.toHaveLength(0);
  for (const example of examples) {
    const { providers, pools } = readPoolsFile(example, {
      kinds: PROVIDER_KINDS,
      readText: () => "text",
      poolLabel: "pool",
    });
    expect([providers.length, pools.length]).toEqual([1, 1]);
  }
});

it("shows an example of each field of a pool", async () => {
  const [example = ""] = await examplesOf("docs/elastic-pools.md");
  const { pools } = parse(example) as { pools: object[] };
  for (const field of ["spot", "standby", "zones", "volume", "bootImage", "labels"])
    expect(pools[0]).toHaveProperty(field);
});

it("grants the rights for Cluster API in the namespace that its page names", async () => {
  const rights = await readFile(join(ROOT, "deploy/kubernetes/node-scaler-cluster-api.yaml"), "utf8");
  const [example = ""] = await examplesOf(`${PROVIDERS}/cluster-api/README.md`);
  const { providers } = parse(example) as { providers: Record<string, { namespace: string }> };
  const [namespace] = Object.values(providers).map((provider) => provider.namespace);
  const roles = rights.split("\n---\n").map((text) => parse(text) as { metadata: { namespace: string } });
  expect(roles.map(({ metadata }) => metadata.namespace)).toEqual([namespace, namespace]);
});
