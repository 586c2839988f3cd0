/**
 * Bundles the muster command with its dependencies into apps/cli/dist/muster.cjs, for Node 20 and later. `--pack FOLDER` also makes the archive for
 * `npm install -g`. Plain JavaScript, because `apps/cli/bin/muster.mjs` runs it on the installed Node when the sources have changed.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const cli = join(root, "apps/cli");
const dist = join(cli, "dist");

/** Inputs of the bundle beside the sources; npm updates its lock file whenever the installed packages change. */
const SETTINGS = ["node_modules/.package-lock.json", "tools/repo/bundle-command.mjs", "tsconfig.base.json"];
/** Node 20 lacks it. */
const WITH_RESOLVERS = `Promise.withResolvers ??= function () {
  const capability = {};
  capability.promise = new this((resolve, reject) => Object.assign(capability, { resolve, reject }));
  return capability;
};`;

await bundleCommand();
const [option, folder] = process.argv.slice(2);
if (option === "--pack") pack(resolve(folder ?? "."));

async function bundleCommand() {
  const startedMs = Date.now();
  const { outputFiles, metafile } = await build({
    absWorkingDir: root,
    entryPoints: ["apps/cli/src/run.ts"],
    outfile: join(dist, "muster.cjs"),
    bundle: true,
    write: false,
    metafile: true,
    platform: "node",
    target: "node20",
    // Unlike imports, requires of a part are loaded together with the part.
    format: "cjs",
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: "none",
    banner: { js: WITH_RESOLVERS },
    logLevel: "warning",
  });
  const sources = Object.keys(metafile.inputs).filter((file) => !file.includes("node_modules/"));
  const packageFiles = sources
    .filter((file) => /^(apps|libs)\//.test(file))
    .map((file) => `${file.split("/").slice(0, 2).join("/")}/package.json`);
  const files = [...new Set([...sources, ...packageFiles, ...SETTINGS])].filter((file) => statOf(file) !== undefined);
  const { text, hash } = described(
    outputFiles[0].text,
    files.map((file) => inputOf(file, startedMs)),
  );
  mkdirSync(dist, { recursive: true });
  // Several processes may bundle concurrently.
  const written = join(dist, `muster.cjs.${process.pid}`);
  writeFileSync(written, text);
  renameSync(written, join(dist, "muster.cjs"));
  for (const file of readdirSync(dist))
    if (file.endsWith(".code") && !file.startsWith(hash)) rmSync(join(dist, file), { force: true });
}

/** A file that changed during the bundling counts as changed. */
function inputOf(file, startedMs) {
  const { mtimeMs, size } = statOf(file);
  return [file, mtimeMs < startedMs ? mtimeMs : 0, size];
}

function statOf(file) {
  return statSync(join(root, file), { throwIfNoEntry: false });
}

function described(code, inputs) {
  const hash = createHash("sha256").update(code).digest("hex").slice(0, 16);
  return { text: `//${JSON.stringify({ hash, inputs })}\n${code}`, hash };
}

/** Packs the archive. It names no dependencies, because the bundle contains them. */
function pack(destination) {
  const stage = mkdtempSync(join(tmpdir(), "muster-pack-"));
  try {
    const { name, version, description, type, bin } = JSON.parse(readFileSync(join(cli, "package.json"), "utf8"));
    const { license } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    const files = ["bin/muster.mjs", "dist/muster.cjs"];
    const manifest = { name, version, description, license, type, bin, files, engines: { node: ">=20" } };
    writeFileSync(join(stage, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
    for (const file of ["bin/muster.mjs", "README.md"]) cpSync(join(cli, file), join(stage, file));
    const bundled = readFileSync(join(dist, "muster.cjs"), "latin1");
    mkdirSync(join(stage, "dist"));
    // Without the times of files, which only apply to this clone.
    const { text } = described(bundled.slice(bundled.indexOf("\n") + 1), []);
    writeFileSync(join(stage, "dist/muster.cjs"), text, "latin1");
    execFileSync("npm", ["pack", "--silent", "--pack-destination", destination], { cwd: stage, stdio: "inherit" });
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}
