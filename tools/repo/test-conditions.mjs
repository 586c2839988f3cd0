/**
 * Prints the conditions on this machine that decide which tests are skipped: programs, the files of KUBEBUILDER_ASSETS and MUSTER_CRD_FIXTURES, a Docker engine
 * and its images. Nx reruns tests when they change (`conditions` in nx.json), so that a cached run with skipped suites is not reused.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";
import { delimiter, join } from "node:path";

const PROGRAMS = ["chromium", "docker", "helm", "jaeger", "kubectl", "moto_server", "nats-server"];
const FOLDERS = ["KUBEBUILDER_ASSETS", "MUSTER_CRD_FIXTURES"];
const IMAGES = ["image", "ls", "--no-trunc", "--format", "{{.Repository}}:{{.Tag}} {{.ID}}", "muster/*"];

for (const name of PROGRAMS) console.log(name, ...pathsOf(name).map(stampOf).slice(0, 1));
for (const name of FOLDERS) console.log(name, ...filesIn(process.env[name]).map(stampOf));
const { status, stdout } = spawnSync("docker", IMAGES, { encoding: "utf8" });
console.log("engine", status === 0, stdout ?? "");

function pathsOf(name) {
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  return folders.map((folder) => join(folder, name)).filter((path) => existsSync(path));
}

function filesIn(folder) {
  if (folder === undefined || !existsSync(folder)) return [];
  return readdirSync(folder)
    .sort()
    .map((name) => join(folder, name));
}

/** Identifies a version of a program by its size and time. */
function stampOf(path) {
  const { size, mtimeMs } = statSync(path);
  return `${path} ${size} ${mtimeMs}`;
}
