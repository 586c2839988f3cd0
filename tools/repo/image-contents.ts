/**
 * Builds the contents of the container images: `node tools/repo/image-contents.ts FOLDER [IMAGE...]`. Writes a folder for each image, which the build copies to
 * the root of its file system: the program, its health check, and its bill of materials.
 */
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { buildSbom } from "./build-sbom.ts";
import { buildConsole } from "./build-console.ts";
import { bundle } from "./bundle.ts";
import { SERVICES } from "./services.ts";

const ROOT = join(import.meta.dirname, "../..");

export type Image = {
  readonly name: string;
  readonly entry: string;
  /** Folders and files of the repository that the program reads. */
  readonly files?: readonly string[];
};

const CONTAINERS = "tools/local/src/containers";

/** Every image, called muster/<name>. */
export const IMAGES: readonly Image[] = [
  ...[...SERVICES, "cli"].map((name) => ({ name, entry: `apps/${name}/src/main.ts` })),
  {
    name: "dev-cluster",
    entry: `${CONTAINERS}/dev-cluster/main.ts`,
    files: ["deploy/crds", "deploy/kubernetes/slices.yaml"],
  },
  { name: "setup", entry: `${CONTAINERS}/setup/main.ts` },
];

/** Writes the contents of an image. The same sources, lock file and version always give the same bytes. Resolves with the bundled files. */
export async function writeContents(
  directory: string,
  { name, entry, files = [] }: Image,
  version?: string,
): Promise<readonly string[]> {
  const app = join(directory, name, "app");
  const sbom = join(directory, name, "usr/share/sbom");
  await mkdir(sbom, { recursive: true });
  const bundled = await bundle({ entry, outdir: app, sourcemap: false, version });
  await writeFile(join(app, "package.json"), '{ "type": "module" }\n');
  const forBrowsers = name === "gateway" ? await buildConsole(join(app, "console")) : [];
  for (const file of files) await cp(join(ROOT, file), join(app, file), { recursive: true });
  await cp(join(import.meta.dirname, "health-check.ts"), join(app, "health-check.ts"));
  const lock = JSON.parse(await readFile(join(ROOT, "package-lock.json"), "utf8")) as Parameters<typeof buildSbom>[2];
  const contained = [...bundled, ...forBrowsers];
  const bill = buildSbom(name, contained, lock, version);
  await writeFile(join(sbom, `${name}.cdx.json`), `${JSON.stringify(bill, undefined, 2)}\n`);
  return contained;
}

if (import.meta.main) {
  const [directory = ".", ...names] = process.argv.slice(2);
  for (const image of IMAGES) {
    if (names.length > 0 && !names.includes(image.name)) continue;
    await writeContents(directory, image);
    console.log(image.name);
  }
}
