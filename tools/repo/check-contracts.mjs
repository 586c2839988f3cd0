/**
 * Lints proto/ and checks that no message of the last release changes incompatibly. contracts/<version>.binpb has its descriptors; `--store` replaces them with
 * the present ones, after a release.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { VERSION } from "./version-plugin.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const folder = join(root, "contracts");

/** Ends this program where buf has printed a reason. */
function buf(...args) {
  const { status, error } = spawnSync(join(root, "node_modules/.bin/buf"), args, { cwd: root, stdio: "inherit" });
  if (status !== 0) fail(error?.message ?? `buf ${args[0]} refuses proto/ (docs/versions.md has the rules)`);
}

/** The commit that is checked out, as a line. */
function head() {
  const { status, stdout } = spawnSync("git", ["rev-parse", "HEAD"], { cwd: root, encoding: "utf8" });
  return status === 0 ? stdout : fail("git rev-parse HEAD failed; --store needs the commit of the release");
}

function fail(reason) {
  console.error(`error: contracts: ${reason}`);
  process.exit(1);
}

buf("lint", "proto");
const stored = readdirSync(folder).filter((name) => name.endsWith(".binpb"));
if (process.argv.includes("--store")) {
  for (const name of stored) rmSync(join(folder, name));
  buf("build", "proto", "--exclude-source-info", "--output", join("contracts", `${VERSION}.binpb`));
  writeFileSync(join(folder, "baseline"), head());
  console.log(`contracts: stored those of ${VERSION}`);
} else if (stored.length !== 1) {
  fail(`contracts/ has ${stored.length} descriptors; exactly one is needed, that of the last release`);
} else {
  buf("breaking", "proto", "--against", join("contracts", stored[0]));
  console.log(`contracts: no breaking change since ${stored[0].replace(".binpb", "")}`);
}
