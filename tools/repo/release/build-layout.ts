import { createHash } from "node:crypto";
import { buildTar, gzip, type Entry } from "./archive.ts";
import type { StageConfig } from "./read-stage.ts";

const INDEX = "application/vnd.oci.image.index.v1+json";
const MANIFEST = "application/vnd.oci.image.manifest.v1+json";
const CONFIG = "application/vnd.oci.image.config.v1+json";
const LAYER = "application/vnd.oci.image.layer.v1.tar+gzip";

export type Platform = { readonly os: string; readonly architecture: string; readonly variant?: string };

/** The image below those of a release, for one platform. */
export type Base = {
  readonly platform: Platform;
  readonly env: readonly string[];
  /** Compressed layers, and the digest of each without compression. */
  readonly layers: readonly { readonly content: Buffer; readonly diffId: string }[];
};

export type ImageRelease = {
  readonly name: string;
  readonly files: readonly Entry[];
  readonly stage: StageConfig;
  readonly labels: Readonly<Record<string, string>>;
  readonly timeS: number;
};

type Descriptor = { readonly mediaType: string; readonly digest: string; readonly size: number };
/** An image with the contents that its manifests name. `index` is its digest for users. */
export type BuiltImage = {
  readonly name: string;
  readonly index: Descriptor;
  readonly blobs: ReadonlyMap<string, Buffer>;
};

/** Builds an image for each platform of the bases, and the index over them. The program is the same on every platform: it has no native parts. */
export function buildImage(bases: readonly Base[], image: ImageRelease): BuiltImage {
  const blobs = new Map<string, Buffer>();
  const put = (mediaType: string, content: Buffer): Descriptor => {
    const digest = computeDigest(content);
    blobs.set(digest, content);
    return { mediaType, digest, size: content.length };
  };
  const putJson = (mediaType: string, value: object): Descriptor => put(mediaType, Buffer.from(JSON.stringify(value)));
  const tar = buildTar(image.files, image.timeS);
  const own = { content: gzip(tar), diffId: computeDigest(tar) };
  const manifests = bases.map((base) => {
    const layers = [...base.layers, own];
    const config = putJson(
      CONFIG,
      buildConfig(
        base,
        image,
        layers.map(({ diffId }) => diffId),
      ),
    );
    const manifest = {
      schemaVersion: 2,
      mediaType: MANIFEST,
      config,
      layers: layers.map(({ content }) => put(LAYER, content)),
    };
    return { ...putJson(MANIFEST, manifest), platform: base.platform };
  });
  const index = putJson(INDEX, { schemaVersion: 2, mediaType: INDEX, manifests, annotations: image.labels });
  return { name: image.name, index, blobs };
}

function buildConfig(
  { platform, env }: Base,
  { stage, labels, timeS }: ImageRelease,
  diffIds: readonly string[],
): object {
  const created = new Date(timeS * 1000).toISOString();
  const names = new Set(stage.Env.map((line) => line.split("=", 1)[0]));
  const kept = env.filter((line) => !names.has(line.split("=", 1)[0]));
  return {
    created,
    ...platform,
    config: { ...stage, Env: [...kept, ...stage.Env], Labels: labels },
    rootfs: { type: "layers", diff_ids: diffIds },
    history: diffIds.map((_, index) => ({ created, created_by: index < diffIds.length - 1 ? "base" : "muster" })),
  };
}

/**
 * The files of an OCI image layout with all images; equal layers appear once. containerd finds each under the name that the chart uses, with its digest, and
 * under that with the version; other tools find it once, under its short name.
 */
export function buildLayout(images: readonly BuiltImage[], repository: string, version: string): Entry[] {
  const manifests = images.flatMap(({ name, index }) => [
    {
      ...index,
      annotations: {
        "org.opencontainers.image.ref.name": name,
        "io.containerd.image.name": `${repository}/${name}:${version}`,
      },
    },
    { ...index, annotations: { "io.containerd.image.name": `${repository}/${name}@${index.digest}` } },
  ]);
  const json = (path: string, value: object): Entry => ({ path, content: Buffer.from(JSON.stringify(value)) });
  const blobs = new Map(images.flatMap((image) => [...image.blobs]));
  return [
    json("oci-layout", { imageLayoutVersion: "1.0.0" }),
    json("index.json", { schemaVersion: 2, mediaType: INDEX, manifests }),
    ...[...blobs].map(([digest, content]) => ({ path: `blobs/${digest.replace(":", "/")}`, content })),
  ];
}

export function computeDigest(content: Buffer): string {
  return `sha256:${createHash("sha256").update(content).digest("hex")}`;
}
