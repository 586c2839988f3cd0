import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { ROOT } from "../src/root.ts";

/** The commit or tag of the last release. */
export const BASELINE = readFileSync(join(ROOT, "contracts/baseline"), "utf8").trim();

/** Programs of the last release. */
export type BaselinePrograms = AsyncDisposable & {
  readonly programOf: (app: string) => string;
  /** Whether the last release had it. */
  readonly has: (app: string) => boolean;
};

/** Returns why the programs cannot be built; undefined if they can. */
export function describeMissingBaseline(): string | undefined {
  const { status } = spawnSync("git", ["cat-file", "-e", `${BASELINE}^{commit}`], { cwd: ROOT, stdio: "ignore" });
  return status === 0
    ? undefined
    : `git has no commit ${BASELINE} of contracts/baseline; git fetch --unshallow gets it`;
}

/** Bundles the sources of the baseline in a temporary folder, with the third-party packages that are installed now. */
export async function buildBaseline(): Promise<BaselinePrograms> {
  await using building = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "muster-baseline-"));
  building.defer(() => rm(folder, { recursive: true, force: true }));
  const archive = execFileSync("git", ["archive", `${BASELINE}^{commit}`], { cwd: ROOT, maxBuffer: Infinity });
  execFileSync("tar", ["--extract", "--directory", folder], { input: archive });
  await linkPackages(folder);
  for (const program of ["libs/proto/generate.ts", "tools/repo/bundle-programs.mjs"])
    execFileSync(process.execPath, [join(folder, program)], { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
  const all = building.move();
  const programOf = (app: string): string => join(folder, `node_modules/.cache/programs/apps/${app}/src/main.mjs`);
  return {
    programOf,
    has: (app) => existsSync(programOf(app)),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** Links the installed packages, and the workspaces of the folder instead of those of this repository. */
async function linkPackages(folder: string): Promise<void> {
  const own = join(folder, "node_modules/@muster");
  await mkdir(own, { recursive: true });
  for (const name of await readdir(join(ROOT, "node_modules")))
    if (name !== "@muster" && !name.startsWith(".")) await link(join("node_modules", name), folder);
  for (const group of ["apps", "libs", "tools"]) {
    for (const workspace of await readdir(join(folder, group))) {
      const path = join(folder, group, workspace);
      const { name } = JSON.parse(await readFile(join(path, "package.json"), "utf8")) as { readonly name: string };
      await symlink(path, join(own, basename(name)));
      const installed = await readdir(join(ROOT, group, workspace)).catch((): string[] => []);
      if (installed.includes("node_modules")) await link(join(group, workspace, "node_modules"), folder);
    }
  }
}

async function link(path: string, folder: string): Promise<void> {
  await mkdir(dirname(join(folder, path)), { recursive: true });
  await symlink(join(ROOT, path), join(folder, path));
}
