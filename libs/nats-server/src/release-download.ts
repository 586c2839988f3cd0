import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runProgram, type ProgramSource } from "./source.ts";

export type NatsRelease = {
  readonly version: string;
  /** The archives lie below it. */
  readonly url: string;
  /** The checksum of the archive for each `<system>-<processor>`, as the release publishes it. */
  readonly sha256: Readonly<Record<string, string>>;
};

/** The project's own release. To change the version take the sums from the SHA256SUMS of that release. */
export const PINNED_RELEASE: NatsRelease = {
  version: "2.15.0",
  url: "https://github.com/nats-io/nats-server/releases/download/v2.15.0",
  sha256: {
    "linux-amd64": "5d2c51caca950333aba84911df7d377f826f3a59ec36061c6539105084f65c92",
    "linux-arm64": "cdc208f5a3f42963a52b6ab06ef65626bb870315dc936e26ba571780c6351112",
    "darwin-amd64": "5bd8b59ca5bf93fab3da2c5843cf564cd6e2e291e22ae3b861746e7ebe259b95",
    "darwin-arm64": "e1c4e22d70bd44abfa0bcb3c16f7cf0c66f648c2e728c58924e8a1ce88913cc8",
  },
};

const MAX_ARCHIVE_BYTES = 64 * 1024 * 1024;
const PROCESSORS: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };

/** Downloads the release and unpacks it only if its checksum is the one pinned here. */
export function makeReleaseDownload(release: NatsRelease): ProgramSource {
  return {
    name: `download of release ${release.version}`,
    takes: "some seconds",
    fetch: async ({ directory, env, signal }) => {
      const target = `${process.platform}-${PROCESSORS[process.arch] ?? process.arch}`;
      const expected = release.sha256[target];
      if (expected === undefined) throw new Error(`no checksum is pinned for ${target}`);
      const name = `nats-server-v${release.version}-${target}`;
      const bytes = await download(`${release.url}/${name}.tar.gz`, signal);
      const actual = createHash("sha256").update(bytes).digest("hex");
      if (actual !== expected) throw new Error(`${name}.tar.gz has checksum ${actual}, not ${expected}`);
      const archive = join(directory, "nats-server.tar.gz");
      await writeFile(archive, bytes);
      await runProgram("tar", ["-xzf", archive, "-C", directory], { env, signal });
      return join(directory, name, "nats-server");
    },
  };
}

async function download(url: string, signal: AbortSignal): Promise<Uint8Array> {
  const response = await fetch(url, { signal });
  if (!response.ok || response.body === null) throw new Error(`${url} answered ${response.status}`);
  const body: AsyncIterable<Uint8Array> = response.body;
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of body) {
    length += part.length;
    if (length > MAX_ARCHIVE_BYTES) throw new Error(`${url} is larger than ${MAX_ARCHIVE_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts);
}
