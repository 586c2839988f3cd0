/**
 * Lints proto/ and checks that no existing message changes incompatibly since the branch point from the remote main, or since the previous commit on main.
 * Prints the commit that it compared with.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const git = (...args) => spawnSync("git", args, { cwd: root, encoding: "utf8" }).stdout.trim();
const buf = (...args) => execFileSync(join(root, "node_modules/.bin/buf"), args, { cwd: root, stdio: "inherit" });

buf("lint", "proto");
const head = git("rev-parse", "HEAD");
const base = [git("merge-base", "HEAD", "origin/main"), git("rev-parse", "HEAD~1")].find(
  (commit) => /^[0-9a-f]{40}$/.test(commit) && commit !== head && git("ls-tree", commit, "proto/buf.yaml") !== "",
);
if (base === undefined) {
  console.log("contracts: no earlier commit to compare with");
} else {
  buf("breaking", "proto", "--against", `.git#ref=${base},subdir=proto`);
  console.log(`contracts: no breaking change since ${base.slice(0, 9)}`);
}
