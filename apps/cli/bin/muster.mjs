#!/usr/bin/env node
// Plain JavaScript that every Node from 20 on can run. Built-in modules are required, because an import evaluates all of their lazy parts.
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const { existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } = require("node:fs");
const { dirname, join } = require("node:path");
const { fileURLToPath } = require("node:url");

const MAJOR_MIN = 20;
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const bundleFile = join(root, "dist/muster.cjs");
const repository = existsSync(join(root, "src/main.ts")) ? join(root, "../..") : undefined;

if (Number(process.versions.node.split(".")[0]) < MAJOR_MIN)
  refuse(`muster needs Node ${MAJOR_MIN} or later, this is ${process.versions.node}`);
else {
  const bundle = readCurrent();
  if (bundle !== undefined) await start(bundle);
}

/** Reads the bundle; in a repository, rebuilds it first if its sources are newer. */
function readCurrent() {
  const built = readBundle();
  if (repository === undefined || (built !== undefined && isCurrent(built))) return built;
  if (!existsSync(join(repository, "node_modules/esbuild"))) {
    refuse("the dependencies of muster are not installed", "run `npm install` in the repository");
    return undefined;
  }
  const { spawnSync } = require("node:child_process");
  const builder = join(repository, "tools/repo/bundle-command.mjs");
  const { status } = spawnSync(process.execPath, [builder], { stdio: ["ignore", "ignore", "inherit"] });
  if (status === 0) return readBundle();
  refuse("building the command failed", "run `npm install` in the repository");
  return undefined;
}

/** The first line describes the bundle: its hash, and the time and size of each source file. */
function readBundle() {
  if (!existsSync(bundleFile)) return undefined;
  // esbuild writes ASCII, so latin1 decodes it without loss.
  const text = readFileSync(bundleFile, "latin1");
  return { text, ...JSON.parse(text.slice("//".length, text.indexOf("\n"))) };
}

function isCurrent({ inputs }) {
  return inputs.every(([file, modifiedMs, size]) => {
    const stats = statSync(join(repository, file), { throwIfNoEntry: false });
    return stats?.mtimeMs === modifiedMs && stats.size === size;
  });
}

/** Runs the bundle. Its compiled code is stored beside it for each version of Node, because compiling takes longer than most commands. */
async function start({ text, hash }) {
  const { Script } = require("node:vm");
  const codeFile = join(root, "dist", `${hash}-${process.version}-${process.arch}.code`);
  const cachedData = existsSync(codeFile) ? readFileSync(codeFile) : undefined;
  const source = `(function (exports, require, module, __filename) {${text}\n})`;
  const script = new Script(source, { filename: bundleFile, ...(cachedData && { cachedData }) });
  const module = { exports: {} };
  script.runInThisContext()(module.exports, createRequire(bundleFile), module, bundleFile);
  await module.exports.run(repository);
  if (cachedData === undefined || script.cachedDataRejected) store(codeFile, script.createCachedData());
}

/** Replaces the file atomically, because other processes may read and write it. Does nothing if the folder is not writable. */
function store(file, data) {
  const written = `${file}.${process.pid}`;
  try {
    writeFileSync(written, data);
    renameSync(written, file);
  } catch {
    rmSync(written, { force: true });
  }
}

function refuse(message, hint) {
  process.stderr.write(`error: ${message}\n${hint === undefined ? "" : `hint: ${hint}\n`}`);
  process.exitCode = 2;
}
