import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { buildImage, buildLayout } from "../release/build-layout.ts";

const OS_RELEASE = 'ID=debian\nVERSION_ID="12"\n';
const DPKG_STATUS = `Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u10
Description: GNU C Library
 Version: 1 is a line of the description.

Package: removed
Status: deinstall ok config-files
Architecture: all
Version: 1:1.0
`;

/** Writes an OCI layout with a base of two platforms that has the packages of a small Debian: enough to build on, not to run. */
export async function writeBase(folder: string): Promise<string> {
  const stage = { Env: ["PATH=/usr/local/bin:/usr/bin"], WorkingDir: "/", User: "", Entrypoint: [], Healthcheck: {} };
  const files = [
    { path: "usr/lib/os-release", content: Buffer.from(OS_RELEASE) },
    { path: "var/lib/dpkg/status", content: Buffer.from(DPKG_STATUS) },
  ];
  const bases = ["amd64", "arm64"].map((architecture) => ({
    platform: { os: "linux", architecture },
    env: ["NODE_VERSION=24.1.0"],
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
