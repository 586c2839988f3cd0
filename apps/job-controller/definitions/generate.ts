import { execFileSync } from "node:child_process";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { buildDefinition, buildEditorSchema } from "./build-definition.ts";

/** Writes deploy/crds and the schema for editors: `node apps/job-controller/definitions/generate.ts`. */
const sources = new URL(".", import.meta.url);
const kubernetes = await readFile(new URL("../../../tools/devcluster/schemas/kubernetes.json", sources), "utf8");
const shared = await readFile(new URL("shared/kubeflow.yaml", sources), "utf8");

for (const name of await readdir(sources)) {
  if (!name.endsWith(".yaml")) continue;
  const source = await readFile(new URL(name, sources), "utf8");
  await write(`deploy/crds/${name}`, buildDefinition(source, kubernetes, shared));
}
await write(
  "schemas/job.schema.json",
  buildEditorSchema(await readFile(new URL("muster.dev_jobs.yaml", sources), "utf8")),
);

async function write(path: string, text: string): Promise<void> {
  const target = new URL(`../../../${path}`, sources);
  await writeFile(target, text);
  execFileSync("prettier", ["--log-level", "warn", "--write", fileURLToPath(target)], { stdio: "inherit" });
}
