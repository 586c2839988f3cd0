import { execFileSync } from "node:child_process";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { buildDefinition } from "./build-definition.ts";

/** Writes deploy/crds: `node apps/job-controller/definitions/generate.ts`. */
const sources = new URL(".", import.meta.url);
const kubernetes = await readFile(new URL("../../../libs/devcluster/schemas/kubernetes.json", sources), "utf8");

for (const name of await readdir(sources)) {
  if (!name.endsWith(".yaml")) continue;
  const target = new URL(`../../../deploy/crds/${name}`, sources);
  await writeFile(target, buildDefinition(await readFile(new URL(name, sources), "utf8"), kubernetes));
  execFileSync("prettier", ["--log-level", "warn", "--write", fileURLToPath(target)], { stdio: "inherit" });
}
