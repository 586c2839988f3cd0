import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { ROOT } from "../src/root.ts";

type Role = { readonly kind: string; readonly rules?: readonly unknown[] };

/** Returns the rules of the role of this kind in a file of deploy/kubernetes. */
async function rulesOf(file: string, kind: string): Promise<readonly unknown[]> {
  const text = await readFile(join(ROOT, "deploy/kubernetes", `${file}.yaml`), "utf8");
  const roles = parseAllDocuments(text).map((each) => each.toJS() as Role);
  return roles.find((each) => each.kind === kind)?.rules ?? [];
}

it.each([
  ["job-controller", "job-namespaces"],
  ["mpijobs", "job-namespaces-mpijobs"],
  ["pod-groups", "job-namespaces-pod-groups"],
  ["session-controller", "session-namespaces"],
])("what %s.yaml grants in one namespace, %s.yaml grants in all", async (one, all) => {
  const rules = await rulesOf(one, "Role");
  expect(rules).not.toEqual([]);
  expect(await rulesOf(all, "ClusterRole")).toEqual(rules);
});
