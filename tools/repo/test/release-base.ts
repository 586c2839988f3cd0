import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { buildImage, buildLayout } from "../release/build-layout.ts";

/** Writes an OCI layout with a base of two platforms that has one small file: enough to build on, not to run. */
export async function writeBase(folder: string): Promise<string> {
  const stage = { Env: ["PATH=/usr/local/bin:/usr/bin"], WorkingDir: "/", User: "", Entrypoint: [], Healthcheck: {} };
  const files = [{ path: "etc/base", content: Buffer.from("base\n") }];
  const bases = ["amd64", "arm64"].map((architecture) => ({
    platform: { os: "linux", architecture },
    env: [],
    layers: [],
  }));
  const image = buildImage(bases, { name: "base", files, stage, labels: {}, timeS: 0 });
  for (const { path, content } of buildLayout([image], "example.com", "1")) {
    const file = join(folder, path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, content);
  }
  return folder;
}
