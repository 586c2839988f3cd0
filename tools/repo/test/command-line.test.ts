import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { globSync } from "node:fs";
import { expect, it } from "vitest";
import { isPlanted } from "./planted.ts";

const ROOT = join(import.meta.dirname, "../../..");
/** Readers of these documents have a clone, whose installation links the command. */
const OF_A_CLONE = [
  "README.md",
  "apps/cli/README.md",
  "apps/job-controller/README.md",
  "apps/watcher/README.md",
  "docs/compose.md",
  "docs/tracing.md",
  "docs/tutorials/job.md",
  "docs/tutorials/lease.md",
  "docs/tutorials/queues.md",
  "docs/tutorials/replica-set.md",
  "docs/tutorials/session.md",
  "examples/README.md",
];
const files = globSync(["*.md", "{docs,deploy,examples}/**/*.{md,txt,yaml}", "apps/**/*.{md,ts}"], {
  cwd: ROOT,
  // Readers do not see tests.
  exclude: (name) => /(?:^|\/)(?:node_modules|dist)(?:\/|$)|\.test\.ts$/.test(name),
}).filter((file) => !OF_A_CLONE.includes(file) && !isPlanted(file));

it("offers `npx muster` only in a clone, because npm has a foreign package of that name", async () => {
  expect(files).toContain("docs/operations/alerts.md");
  expect(files).toContain("deploy/helm/muster/templates/NOTES.txt");
  for (const file of files) {
    const text = await readFile(join(ROOT, file), "utf8");
    const offered = text.split("\n").filter((line) => /npx muster/.test(line) && !/in a clone/i.test(line));
    expect(offered, file).toEqual([]);
  }
});

it("connects after an installation with the same commands in the notes of the chart and in the documents", async () => {
  const notes = await readFile(join(ROOT, "deploy/helm/muster/templates/NOTES.txt"), "utf8");
  const commands = notes
    .replaceAll("{{ .Release.Namespace }}", "muster-system")
    .replace(/\{\{ include "muster\.image" [^}]*\}\}/, "REGISTRY/muster/cli:0.1.0")
    .split("\n")
    .filter((line) => line.startsWith("  "))
    .map((line) => line.slice(2));
  expect(commands.filter((line) => /^(?:export|alias) /.test(line))).toHaveLength(2);
  const guide = (await readFile(join(ROOT, "docs/install.md"), "utf8")).split("\n");
  expect(guide).toEqual(expect.arrayContaining(commands));
  const readme = (await readFile(join(ROOT, "apps/cli/README.md"), "utf8")).split("\n");
  const alias = commands.findIndex((line) => line.startsWith("alias "));
  expect(readme).toEqual(expect.arrayContaining(commands.slice(alias, alias + 2)));
});
