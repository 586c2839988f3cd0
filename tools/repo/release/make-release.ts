import { execFile } from "node:child_process";
import { mkdir, mkdtempDisposable, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { buildSbom, extendSbom, type Lock, type Sbom } from "../build-sbom.ts";
import { IMAGES, writeContents } from "../image-contents.ts";
import { buildSite } from "../site/build-site.ts";
import { buildTar, gzip, readEntries, withFolders, type Entry } from "./archive.ts";
import { buildChart } from "./build-chart.ts";
import { buildChecksums } from "./build-checksums.ts";
import { buildCompose } from "./build-compose.ts";
import { buildImage, buildLayout, type BuiltImage } from "./build-layout.ts";
import { getSection } from "./decide-version.ts";
import { listForeignPlaces, readLicenses } from "./read-licenses.ts";
import { pushImages } from "./push-images.ts";
import { readBases } from "./read-base.ts";
import { readBasePackages, type BasePackage } from "./read-base-packages.ts";
import { readStage } from "./read-stage.ts";

const ROOT = join(import.meta.dirname, "../../..");
const run = promisify(execFile);
/** The rendered manifests are some hundred kilobytes. */
const MAX_BUFFER = 64 * 1024 * 1024;
const LICENSES = "THIRD-PARTY-LICENSES.txt";
const NAMESPACE = "muster-system";
/** Folders that docker-compose.yml mounts, and examples. */
const COMPOSE_FOLDERS = ["deploy/nats", "deploy/prometheus", "deploy/grafana", "deploy/dashboards", "examples"];

export type ReleaseOptions = {
  readonly version: string;
  /** The version without its pre-release. */
  readonly core: string;
  readonly registry: string;
  readonly base: string;
  /** The folder of the artifacts; emptied first. */
  readonly output: string;
  readonly push: boolean;
  /** The folder with the credentials of `docker login`. */
  readonly dockerConfig: string;
  /** A private key of OpenSSH. */
  readonly signKey: string | undefined;
  /** Unix time of all files in seconds. */
  readonly timeS: number;
  /** The commit, and the URL of the sources, for the labels of the images. */
  readonly revision: string;
  readonly source: string;
};

/** Writes all artifacts and their checksums, and pushes the images if asked. The same sources and options give the same bytes. Rejects before it pushes. */
export async function makeRelease(options: ReleaseOptions): Promise<void> {
  const { version, registry, output, timeS } = options;
  await run("helm", ["version"]).catch((error: unknown) => {
    throw new Error("a release needs helm on the PATH, to check and to render the chart", { cause: error });
  });
  await using scratch = await mkdtempDisposable(join(tmpdir(), "muster-release-"));
  const files = new Map<string, Buffer>();
  const add = (name: string, content: Buffer | string): void => void files.set(name, Buffer.from(content));
  const archive = (entries: readonly Entry[]): Buffer => gzip(buildTar(entries, timeS));

  add(`CHANGELOG-${version}.md`, getSection(await readText("CHANGELOG.md"), options.core));
  report("images");
  const { images, licenses, places, basePackages } = await buildImages(scratch.path, options);
  const digests = new Map(images.map(({ name, index }) => [name, index.digest]));
  add(LICENSES, licenses);
  add(`muster-images-${version}.tar`, buildTar(buildLayout(images, registry, version), timeS));
  add(`muster-images-${version}.txt`, [...digests].map(([name, digest]) => `${registry}/${name}@${digest}\n`).join(""));
  for (const { name } of images) {
    const bill = await readFile(join(scratch.path, name, `usr/share/sbom/${name}.cdx.json`), "utf8");
    add(`muster-${name}-${version}.cdx.json`, print(extendSbom(JSON.parse(bill) as Sbom, basePackages)));
  }

  report("command");
  const command = await packCommand(scratch.path, version, licenses, places);
  add(`muster-cli-${version}.tgz`, command.archive);
  add(`muster-command-${version}.cdx.json`, command.sbom);

  report("chart and manifests");
  const chart = buildChart(await readEntries(join(ROOT, "deploy/helm/muster"), "muster/"), {
    version,
    repository: registry,
    digests,
  });
  add(`muster-${version}.tgz`, archive(chart));
  add(`muster-${version}.yaml`, await renderManifests(scratch.path, archive(chart)));

  report("compose and documents");
  const compose = buildCompose(await readText("docker-compose.yml"), registry, digests);
  add(`muster-compose-${version}.tgz`, archive(await composeEntries(`muster-compose-${version}/`, compose)));
  const site = join(scratch.path, "site");
  await buildSite(ROOT, site);
  add(`muster-docs-${version}.tgz`, archive(await readEntries(site, `muster-docs-${version}/`)));

  add("SHA256SUMS", buildChecksums(files));
  await rm(output, { recursive: true, force: true });
  await mkdir(output, { recursive: true });
  for (const [name, content] of files) await writeFile(join(output, name), content);
  if (options.signKey !== undefined)
    await run("ssh-keygen", ["-Y", "sign", "-n", "file", "-f", options.signKey, join(output, "SHA256SUMS")]);
  if (options.push) {
    report(`push to ${registry}`);
    await pushImages(images, registry, version, options.dockerConfig);
  }
  report(output);
}

type Built = {
  readonly images: readonly BuiltImage[];
  readonly licenses: string;
  readonly places: readonly string[];
  readonly basePackages: readonly BasePackage[];
};

/** Builds all images on the base, each with the licenses of everything that any of them contains. */
async function buildImages(folder: string, { version, base, timeS, revision, source }: ReleaseOptions): Promise<Built> {
  const bases = await readBases(base);
  const stage = readStage(await readText("Dockerfile"));
  const bundled: string[] = [];
  for (const image of IMAGES) bundled.push(...(await writeContents(folder, image, version)));
  const lock = await readLock();
  const places = listForeignPlaces(bundled, lock);
  const licenses = await readLicenses(ROOT, lock, places);
  const legal = [
    { path: LICENSES, content: Buffer.from(licenses) },
    ...(await Promise.all(
      ["LICENSE", "NOTICE"].map(async (path) => ({ path, content: await readFile(join(ROOT, path)) })),
    )),
  ].map((entry) => ({ ...entry, path: `usr/share/doc/muster/${entry.path}` }));
  const images: BuiltImage[] = [];
  for (const { name } of IMAGES) {
    const labels = {
      "org.opencontainers.image.title": `muster/${name}`,
      "org.opencontainers.image.version": version,
      "org.opencontainers.image.revision": revision,
      "org.opencontainers.image.source": source,
      "org.opencontainers.image.licenses": "Apache-2.0",
    };
    const entries = withFolders([...(await readEntries(join(folder, name), "")), ...legal]);
    images.push(buildImage(bases, { name, files: entries, stage, labels, timeS }));
  }
  return { images, licenses, places, basePackages: readBasePackages(bases) };
}

async function packCommand(
  folder: string,
  version: string,
  licenses: string,
  places: readonly string[],
): Promise<{ readonly archive: Buffer; readonly sbom: string }> {
  const file = join(folder, LICENSES);
  await writeFile(file, licenses);
  const bundler = join(ROOT, "tools/repo/bundle-command.mjs");
  const args = [bundler, "--pack", folder, "--release", version, "--licenses", file];
  const { stdout } = await run(process.execPath, args, { maxBuffer: MAX_BUFFER });
  const sources = JSON.parse(stdout) as string[];
  const lock = await readLock();
  const unlisted = listForeignPlaces(sources, lock).filter((place) => !places.includes(place));
  if (unlisted.length > 0) throw new Error(`${LICENSES} lacks packages of the command: ${unlisted.join(", ")}`);
  const sbom = print(buildSbom("command", sources, lock, version));
  return { archive: await readFile(join(folder, `muster-cli-${version}.tgz`)), sbom };
}

/** Checks the chart, and renders it with its defaults, below the namespace. */
async function renderManifests(folder: string, chart: Buffer): Promise<string> {
  const file = join(folder, "chart.tgz");
  await writeFile(file, chart);
  await run("helm", ["lint", "--strict", file]);
  const args = ["template", "muster", file, "--namespace", NAMESPACE, "--skip-tests"];
  const { stdout } = await run("helm", args, { maxBuffer: MAX_BUFFER });
  return `${(await readText("deploy/kubernetes/namespace.yaml")).trimEnd()}\n${stdout}`;
}

async function composeEntries(prefix: string, compose: string): Promise<Entry[]> {
  const folders = await Promise.all(COMPOSE_FOLDERS.map((path) => readEntries(join(ROOT, path), `${prefix}${path}/`)));
  const legal = ["LICENSE", "NOTICE"].map(async (path) => ({
    path: prefix + path,
    content: await readFile(join(ROOT, path)),
  }));
  const file = { path: `${prefix}docker-compose.yml`, content: Buffer.from(compose) };
  return [file, ...(await Promise.all(legal)), ...folders.flat()];
}

const print = (document: Sbom): string => `${JSON.stringify(document, undefined, 2)}\n`;

const readText = (path: string): Promise<string> => readFile(join(ROOT, path), "utf8");

async function readLock(): Promise<Lock> {
  return JSON.parse(await readText("package-lock.json")) as Lock;
}

function report(step: string): void {
  process.stderr.write(`release: ${step}\n`);
}
