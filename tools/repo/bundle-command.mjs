/**
 * Bundles the muster command with its dependencies into apps/cli/dist/muster.cjs, for Node 20 and later. `--pack FOLDER` makes the archive for
 * `npm install -g` instead, with a man page and completion, and prints the bundled files as JSON; `--release VERSION` is the version in it, `--licenses FILE` the
 * licenses of other authors. Plain JavaScript, because `apps/cli/bin/muster.mjs` runs it on the installed Node when the sources have changed.
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
import { parseArgs } from "node:util";
import { build } from "esbuild";
import { VERSION, versionPlugin } from "./version-plugin.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const cli = join(root, "apps/cli");
const dist = join(cli, "dist");

/** Inputs of the bundle beside the sources; npm updates its lock file whenever the installed packages change. */
const SETTINGS = ["node_modules/.package-lock.json", "tools/repo/bundle-command.mjs", "tsconfig.base.json"];
/** Texts of the licenses of other authors, in the archive. */
const LICENSES = "THIRD-PARTY-LICENSES.txt";
/** Node 20 lacks `withResolvers`, and warns on standard error about more than 10 listeners of a signal. */
const FOR_NODE_20 = `require("node:events").setMaxListeners(0);
Promise.withResolvers ??= function () {
  const capability = {};
  capability.promise = new this((resolve, reject) => Object.assign(capability, { resolve, reject }));
  return capability;
};`;
/** CommonJS has no `import.meta.url`, from which some dependencies make a `require` of their own. */
const OWN_URL = `const bundleUrl = require("node:url").pathToFileURL(__filename).href;`;

const { values: options } = parseArgs({
  options: { pack: { type: "string" }, release: { type: "string", default: VERSION }, licenses: { type: "string" } },
});
if (options.pack === undefined) await updateBundle();
else await pack(resolve(options.pack));

/** Bundles with the version; resolves with the code and the paths of its sources from the root. */
async function bundleCommand(version) {
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
    banner: { js: `${FOR_NODE_20}\n${OWN_URL}` },
    define: { "import.meta.url": "bundleUrl" },
    plugins: [versionPlugin(version)],
    logLevel: "warning",
  });
  return { code: outputFiles[0].text, sources: Object.keys(metafile.inputs).sort() };
}

/** Writes the bundle of the clone. */
async function updateBundle() {
  const startedMs = Date.now();
  const { code, sources } = await bundleCommand(VERSION);
  const own = sources.filter((file) => !file.includes("node_modules/"));
  const packageFiles = own
    .filter((file) => /^(apps|libs)\//.test(file))
    .map((file) => `${file.split("/").slice(0, 2).join("/")}/package.json`);
  const files = [...new Set([...own, ...packageFiles, ...SETTINGS])].filter((file) => statOf(file) !== undefined);
  const { text, hash } = described(
    code,
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
async function pack(destination) {
  const stage = mkdtempSync(join(tmpdir(), "muster-pack-"));
  try {
    const sources = await stagePackage(stage);
    execFileSync("npm", ["pack", "--silent", "--pack-destination", destination], {
      cwd: stage,
      stdio: ["ignore", 2, 2],
    });
    process.stdout.write(`${JSON.stringify(sources)}\n`);
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

/** Writes the package into a folder; resolves with the bundled files. The staged command prints its own man page and completion. */
async function stagePackage(stage) {
  const { code, sources } = await bundleCommand(options.release);
  const { name, description, type, bin } = JSON.parse(readFileSync(join(cli, "package.json"), "utf8"));
  const { license } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const manifest = {
    ...{ name, version: options.release, description, license, type, bin },
    man: ["man/muster.1"],
    files: ["bin/muster.mjs", "dist/muster.cjs", "man", "completion", "NOTICE", LICENSES],
    engines: { node: ">=20" },
  };
  for (const folder of ["bin", "dist", "man", "completion"]) mkdirSync(join(stage, folder));
  writeFileSync(join(stage, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  for (const file of ["bin/muster.mjs", "README.md"]) cpSync(join(cli, file), join(stage, file));
  for (const file of ["LICENSE", "NOTICE"]) cpSync(join(root, file), join(stage, file));
  if (options.licenses !== undefined) cpSync(options.licenses, join(stage, LICENSES));
  // Times of files apply only to this clone, and are left out.
  const { text, hash } = described(code, []);
  writeFileSync(join(stage, "dist/muster.cjs"), text);
  const print = (file, ...args) =>
    writeFileSync(join(stage, file), execFileSync(process.execPath, [join(stage, "bin/muster.mjs"), ...args]));
  print("man/muster.1", "__man");
  for (const shell of ["bash", "zsh", "fish"]) print(`completion/muster.${shell}`, "completion", shell);
  for (const file of readdirSync(join(stage, "dist"))) if (file.startsWith(hash)) rmSync(join(stage, "dist", file));
  return sources;
}
