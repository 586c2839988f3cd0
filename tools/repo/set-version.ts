/** Sets the version of package.json in the other files that name it. `npm version` runs it. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../..");
const CHART = "deploy/helm/muster/Chart.yaml";
const FILES = [CHART, "docs/install.md"];

/** Replaces a version where it is no part of a longer number. */
export function replaceVersion(text: string, from: string, to: string): string {
  return text.replaceAll(new RegExp(`(?<![\\d.])${from.replaceAll(".", "\\.")}(?!\\.?\\d)`, "g"), () => to);
}

if (import.meta.main) {
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
  const [, earlier = version] = /^version: (.*)$/m.exec(readFileSync(join(ROOT, CHART), "utf8")) ?? [];
  for (const file of FILES) {
    const text = readFileSync(join(ROOT, file), "utf8");
    writeFileSync(join(ROOT, file), replaceVersion(text, earlier, version));
  }
}
