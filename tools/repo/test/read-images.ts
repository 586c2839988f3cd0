import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { BuiltImage } from "../release/build-layout.ts";

type Descriptor = BuiltImage["index"] & { readonly annotations?: Readonly<Record<string, string>> };
type Named = {
  readonly manifests?: readonly Descriptor[];
  readonly layers?: readonly Descriptor[];
  readonly config?: Descriptor;
};

/** Reads the images of an unpacked OCI layout as the release builds them. */
export async function readImages(layout: string): Promise<BuiltImage[]> {
  const index = JSON.parse(await readFile(join(layout, "index.json"), "utf8")) as Named;
  const images: BuiltImage[] = [];
  for (const { annotations, ...descriptor } of index.manifests ?? []) {
    const name = annotations?.["org.opencontainers.image.ref.name"];
    if (name === undefined) continue;
    const blobs = new Map<string, Buffer>();
    await collect(layout, descriptor, blobs);
    images.push({ name, index: descriptor, blobs });
  }
  return images;
}

/** Contents before the manifests that name them. */
async function collect(layout: string, { digest, mediaType }: Descriptor, blobs: Map<string, Buffer>): Promise<void> {
  const content = await readFile(join(layout, "blobs", digest.replace(":", "/")));
  if (/index|manifest/.test(mediaType)) {
    const { manifests = [], layers = [], config } = JSON.parse(content.toString()) as Named;
    for (const named of [...manifests, ...layers, ...(config === undefined ? [] : [config])])
      await collect(layout, named, blobs);
  }
  blobs.set(digest, content);
}
