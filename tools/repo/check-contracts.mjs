/**
 * Lints proto/ and checks that no message, definition or value of the chart of the last release changes incompatibly. contracts/<version>.binpb has its
 * descriptors, and contracts/<version>.schemas.json its schemas; `--store` replaces them with the present ones, after a release.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { findBreaks, readSchemas } from "./schema-contracts.ts";
import { VERSION } from "./version-plugin.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const folder = join(root, "contracts");

/** Ends this program where buf has printed a reason. */
function buf(...args) {
  const { status, error } = spawnSync(join(root, "node_modules/.bin/buf"), args, { cwd: root, stdio: "inherit" });
  if (status !== 0) fail(error?.message ?? `buf ${args[0]} refuses proto/ (docs/versions.md has the rules)`);
}

/** The file with the schemas of a release. @param {string} descriptors */
function schemasOf(descriptors) {
  return descriptors.replace(".binpb", ".schemas.json");
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
  for (const name of [...stored, ...stored.map(schemasOf)]) rmSync(join(folder, name), { force: true });
  buf("build", "proto", "--exclude-source-info", "--output", join("contracts", `${VERSION}.binpb`));
  writeFileSync(join(folder, schemasOf(`${VERSION}.binpb`)), `${JSON.stringify(readSchemas(root))}\n`);
  writeFileSync(join(folder, "baseline"), head());
  console.log(`contracts: stored those of ${VERSION}`);
} else if (stored.length !== 1) {
  fail(`contracts/ has ${stored.length} descriptors; exactly one is needed, that of the last release`);
} else {
  buf("breaking", "proto", "--against", join("contracts", stored[0]));
  const breaks = findBreaks(JSON.parse(readFileSync(join(folder, schemasOf(stored[0])), "utf8")), readSchemas(root));
  for (const line of breaks) console.error(line);
  if (breaks.length > 0)
    fail("documents of the last release are refused or lose fields (docs/versions.md has the rules)");
  console.log(`contracts: no breaking change since ${stored[0].replace(".binpb", "")}`);
}
