import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtempDisposable, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzip } from "./archive.ts";
import type { Base, Platform } from "./build-layout.ts";

const run = promisify(execFile);
const PLATFORMS = ["linux/amd64", "linux/arm64"];
const GZIP_MAGIC = 0x1f8b;

type Config = Platform & {
  readonly config?: { readonly Env?: readonly string[] };
  readonly rootfs: { readonly diff_ids: readonly string[] };
};
type Descriptor = { readonly digest: string; readonly mediaType: string; readonly platform?: Platform };
type Index = { readonly manifests: readonly Descriptor[] };
type Manifest = { readonly config: Descriptor; readonly layers: readonly Descriptor[] };

/**
 * Reads the base of the images: the folder of an OCI image layout, with every platform that Muster supports, or an image of the Docker engine, with one
 * platform. Rejects when neither exists.
 */
export async function readBases(base: string): Promise<readonly Base[]> {
  if (existsSync(join(base, "oci-layout"))) return readLayout(base);
  await using folder = await mkdtempDisposable(join(tmpdir(), "muster-base-"));
  await run("docker", ["save", "--output", join(folder.path, "base.tar"), base]).catch((error: unknown) => {
    const because = `${base} is neither a folder with an OCI image layout nor an image of the Docker engine`;
    throw new Error(`--base: ${because}`, { cause: error });
  });
  await run("tar", ["-xf", "base.tar"], { cwd: folder.path });
  const [saved] = await readJson<{ Config: string; Layers: string[] }[]>(join(folder.path, "manifest.json"));
  if (saved === undefined) throw new Error(`docker save ${base} has no image`);
  const config = await readJson<Config>(join(folder.path, saved.Config));
  return [
    await readBase(
      config,
      saved.Layers.map((layer) => join(folder.path, layer)),
    ),
  ];
}

async function readLayout(folder: string): Promise<Base[]> {
  const blob = (digest: string): string => join(folder, "blobs", digest.replace(":", "/"));
  let { manifests } = await readJson<Index>(join(folder, "index.json"));
  while (manifests.some(({ mediaType }) => /index|list/.test(mediaType)))
    manifests = (await Promise.all(manifests.map(({ digest }) => readJson<Index>(blob(digest))))).flatMap(
      (index) => index.manifests,
    );
  const bases: Base[] = [];
  // A layout may list an image under several names.
  for (const digest of new Set(manifests.map((manifest) => manifest.digest))) {
    const manifest = await readJson<Manifest>(blob(digest));
    const config = await readJson<Config>(blob(manifest.config.digest));
    if (!PLATFORMS.includes(`${config.os}/${config.architecture}`)) continue;
    bases.push(
      await readBase(
        config,
        manifest.layers.map((layer) => blob(layer.digest)),
      ),
    );
  }
  if (bases.length === 0) throw new Error(`--base: ${folder} has an image for none of ${PLATFORMS.join(", ")}`);
  return bases;
}

async function readBase(config: Config, layers: readonly string[]): Promise<Base> {
  const { os, architecture, variant, rootfs } = config;
  const contents = await Promise.all(layers.map((layer) => readFile(layer)));
  return {
    platform: { os, architecture, ...(variant === undefined || variant === "" ? {} : { variant }) },
    env: config.config?.Env ?? [],
    layers: contents.map((content, index) => ({
      content: content.readUInt16BE(0) === GZIP_MAGIC ? content : gzip(content),
      diffId: rootfs.diff_ids[index] ?? "",
    })),
  };
}

async function readJson<Value>(file: string): Promise<Value> {
  return JSON.parse(await readFile(file, "utf8")) as Value;
}
