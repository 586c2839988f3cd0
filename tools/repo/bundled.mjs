/** Locates the bundles of programs, and checks whether one is up to date. Plain JavaScript, because the command runs it on the installed Node. */
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
export const BUNDLES = join(root, "node_modules/.cache/programs");
/** npm writes it whenever the installed packages change. */
const INSTALLED = "node_modules/.package-lock.json";

/** @param {string} program from the root of the repository, as `apps/cli/src/main.ts` */
export const bundleOf = (program) => join(BUNDLES, program.replace(/\.ts$/, ".mjs"));

/**
 * Whether the bundle of a program exists and is newer than its sources. A new file counts once a file that imports it has changed.
 * @param {string} program
 */
export function isBundled(program) {
  try {
    /** @type {{ readonly madeAtMs: number, readonly sources: readonly string[] }} */
    const { madeAtMs, sources } = JSON.parse(readFileSync(listOf(program), "utf8"));
    return [INSTALLED, ...sources].every((source) => statSync(join(root, source)).mtimeMs < madeAtMs);
  } catch {
    // The list or a source is missing.
    return false;
  }
}

/** @param {string} program @param {readonly string[]} sources @param {number} madeAtMs before the first of them was read */
export function writeSources(program, sources, madeAtMs) {
  mkdirSync(dirname(listOf(program)), { recursive: true });
  writeFileSync(listOf(program), JSON.stringify({ madeAtMs, sources }));
}

/** @param {string} program */
const listOf = (program) => `${bundleOf(program)}.sources.json`;
